// The tokens and substitutes of RoBERTa's words beside RIFT's code. The only differences must be those that
// docs/explanation/fidelity.md names.
import { join } from "node:path";
import { findModifiableWords } from "../../../dist/hull/convex-hull.js";
import { buildAttackSpace } from "../../../dist/text/replacements.js";
import { parseSubstitutionTable } from "../../../dist/text/substitutions.js";
import { loadTokenizer } from "../../../dist/text/tokenizer.js";
import { fixtures } from "./compare-training.mjs";
import { compareCounts } from "./rows.mjs";

/** Texts as NLTK joins their words. Each of these words is one piece of RoBERTa's pattern. */
const plain = [
  ["the film was wonderful and the ending quiet"],
  ["why was every boring story an honest answer ?"],
  ["Nobody in town knows the terrible picture -- Zürich ..."],
  ["unbelievable : the student loves 12 films"],
];
/** All words of several pieces. Each of the texts has some. */
const wordsOfSeveralPieces = ["n't", "'s", "'re", "'ll", "1980s", "o'toole", "3.50", "10/10"];
const split = [
  ["the teacher does n't see the film"],
  ["the actor 's story was quiet"],
  ["they 're boring , he 'll say , and the ending is n't wonderful"],
  ["a film of the 1980s by o'toole for 3.50 euros , 10/10 , was boring"],
];
const pairs = [
  ["the teacher wrote a story", "the student loves the story"],
  ["nobody knows the river", "wonderful picture of the film"],
  ["a quiet town .", "terrible film"],
];
const table = {
  film: ["picture", "story", "unlisted"],
  story: ["film"],
  wonderful: ["terrible", "honest", "boring"],
  boring: ["quiet", "ordinary"],
  terrible: ["broken"],
  student: ["teacher", "actor"],
  teacher: ["student"],
};
const length = 32;

export const prepareWords = async () => ({ tokenizer: await loadTokenizer(join(fixtures, "roberta-tiny")) });

const isEqual = (a, b) => JSON.stringify([...a]) === JSON.stringify([...b]);
/** The positions of the first pieces in a sequence with special tokens at both ends. */
const findFirstPieces = (counts) => counts.map((_, i) => counts.slice(0, i).reduce((sum, count) => sum + count, 1));

export function compareWords(released, { tokenizer }) {
  const substitutions = parseSubstitutionTable(table, "toy table");
  const inputs = [...plain, ...split, ...pairs];
  const encodings = inputs.map((texts) => tokenizer.encodeWords(texts, length));
  const isDifferent = {
    plain: ({ ids }, { tokens }) => !isEqual(ids, tokens),
    // The texts must differ, but not without the further pieces of these words.
    split({ ids, words }, { tokens, pieces }) {
      const found = words.filter((_, i) => pieces[i] > 1);
      const expected = words.filter((word) => wordsOfSeveralPieces.includes(word));
      const first = findFirstPieces(pieces).map((position) => tokens[position]);
      return expected.length === 0 || !isEqual(found, expected) || !isEqual(ids, [tokens[0], ...first, tokens.at(-1)]);
    },
    // The pairs must differ in the first word of the hypothesis, which has no space before it.
    pairs({ ids, words, fields, positions }, { tokens }) {
      const start = fields.indexOf(1);
      const [, unspaced] = tokenizer.encode([words[start]], length).ids;
      return isEqual(ids, tokens) || !isEqual(ids.with(positions[start], unspaced), tokens);
    },
  };
  const count = (name, start, size) =>
    encodings.slice(start, start + size).filter((each, i) => isDifferent[name](each, released[start + i])).length;

  let [open, differing] = [0, 0];
  for (const [i, { words, fields, positions }] of encodings.entries()) {
    const space = buildAttackSpace(words, fields, [inputs[i].length - 1], substitutions);
    const found = findModifiableWords(space, positions, tokenizer.wordToId);
    const own = new Map(
      [...found.tokenPositions].map((position, j) => [position, [...found.candidateIds[j].slice(1)]]),
    );
    for (const [position, theirs] of released[i].substitutes.entries()) {
      if (own.has(position) || theirs.length > 0) open++;
      if (!isEqual(own.get(position) ?? [], theirs)) differing++;
    }
  }
  const name = "RoBERTa's words";
  return [
    compareCounts(`${name}: tokens of texts`, plain.length, count("plain", 0, plain.length)),
    compareCounts(
      `${name}: first pieces of texts with words of several pieces`,
      split.length,
      count("split", plain.length, split.length),
    ),
    compareCounts(
      `${name}: tokens of pairs, but for the space before the hypothesis`,
      pairs.length,
      count("pairs", plain.length + split.length, pairs.length),
    ),
    compareCounts(`${name}: substitutes of open words`, open, differing),
  ];
}
