import { findWords, isOneWord } from "../../text/find-words.js";
import type { UniversalTag } from "../../text/part-of-speech.js";
import type { EditedText } from "../edited-text.js";
import type { Transformation } from "../protocol.js";
import { type ResourceGenerator, request } from "../requests.js";
import type { MaskedLanguageModel, MaskedToken } from "../resources.js";
import { universalTagger } from "../taggers.js";
import { replaceWords } from "./replace-words.js";

interface MaskedWordOptions {
  readonly maxCandidates: number;
  readonly minProbability?: number;
  /** TextAttack keeps pieces of words, without their mark, and counts numbers and repetitions. */
  readonly keepsPieces?: boolean;
}

/** The predictions for each token of a word. */
type WordTokens = readonly (readonly MaskedToken[])[];

/** Replaces a word by words that the model expects in its place (BAE-R, CLARE). */
export function replaceMaskedWords(model: MaskedLanguageModel, options: MaskedWordOptions): Transformation {
  return {
    name: `up to ${options.maxCandidates} words that ${model.name} expects`,
    kind: "swap",
    *apply(text, positions) {
      const answers = yield* predictWords(model, text, positions, true);
      return replaceWords(text, positions, (_, i) => selectWords(answers[i]![0], options));
    },
  };
}

/** Inserts words that the model expects before a word (BAE-I, CLARE). */
export function insertMaskedWords(model: MaskedLanguageModel, options: MaskedWordOptions): Transformation {
  return {
    name: `up to ${options.maxCandidates} words that ${model.name} expects before a word`,
    kind: "insert",
    *apply(text, positions) {
      // A mask before a word stands alone, so the word moves behind it.
      const answers = yield* predictWords(model, text, positions, true, (position) => ` ${text.getWord(position)}`);
      return positions.flatMap((position, i) =>
        selectWords(answers[i]![0], options).map((word) => text.apply({ kind: "insert", position, word })),
      );
    },
  };
}

/** Parts of speech of two neighboring words that can be merged (CLARE). */
const mergeable: Readonly<Partial<Record<UniversalTag, readonly UniversalTag[]>>> = {
  NOUN: ["NOUN"],
  ADJ: ["NOUN", "NUM", "ADJ", "ADV"],
  ADV: ["ADJ", "VERB"],
  VERB: ["ADV", "VERB", "NOUN", "ADJ"],
  DET: ["NOUN", "ADJ"],
  PRON: ["NOUN", "ADJ"],
  NUM: ["NUM", "NOUN"],
};

/** Replaces two neighboring words by one that the model expects (CLARE). */
export function mergeMaskedWords(model: MaskedLanguageModel, options: MaskedWordOptions): Transformation {
  return {
    name: `up to ${options.maxCandidates} words that ${model.name} expects for two words`,
    kind: "merge",
    *apply(text, positions) {
      const [tags] = yield* request(universalTagger, [text.words]);
      const pairs = positions.filter((position) => {
        const isSameField = text.slots[position + 1]?.field === text.slots[position]!.field;
        return isSameField && mergeable[tags![position]!]?.includes(tags![position + 1]!);
      });
      const queries = pairs.map((position) => {
        const { field, start } = text.slots[position]!;
        return { text: text.texts[field]!, start, end: text.slots[position + 1]!.end, isMasked: true };
      });
      const answers = yield* request(model, queries);
      return pairs.flatMap((position, i) =>
        selectWords(answers[i]![0], options).map((word) => text.apply({ kind: "merge", position, word })),
      );
    },
  };
}

/** Asks the model for the words at some positions, which it reads or not. `getSuffix` follows each of them. */
function predictWords(
  model: MaskedLanguageModel,
  text: EditedText,
  positions: readonly number[],
  isMasked: boolean,
  getSuffix: (position: number) => string = () => "",
): ResourceGenerator<readonly WordTokens[]> {
  const queries = positions.map((position) => {
    const { field, start, end } = text.slots[position]!;
    const whole = text.texts[field]!;
    return { text: whole.slice(0, end) + getSuffix(position) + whole.slice(end), start, end, isMasked };
  });
  return request(model, queries);
}

/** Tokens that are one word with a letter, above the probability. */
function selectWords(tokens: readonly MaskedToken[] = [], options: MaskedWordOptions): string[] {
  const { maxCandidates, minProbability = 0, keepsPieces = false } = options;
  const likely = tokens.filter(({ probability }) => probability >= minProbability);
  const chosen = keepsPieces
    ? likely
        .filter(({ word }) => containsOneWord(word) && !isPunctuation(word))
        .slice(0, maxCandidates)
        .filter(({ word }) => hasLetter(word))
    : likely.filter(({ word, isPiece }) => !isPiece && hasLetter(word) && isOneWord(word));
  return [...new Set(chosen.map(({ word }) => word))].slice(0, maxCandidates);
}

function hasLetter(text: string): boolean {
  return /[a-z]/i.test(text);
}

/** One word for TextAttack, which ignores punctuation around it: "--a" is one word. */
function containsOneWord(text: string): boolean {
  return findWords(text).length === 1;
}

function isPunctuation(text: string): boolean {
  return /^[!-/:-@[-`{-~]*$/.test(text);
}

/** Limits of BERT-Attack's released code for words of several tokens. */
const combinationLimits = { perPiece: 4, pieces: 12, combinations: 24 };

/**
 * Replaces a word by words that the model predicts for its tokens without masking it (BERT-Attack).
 * Words of several tokens become combinations of pieces, the most probable first.
 */
export function replacePredictedWords(model: MaskedLanguageModel, maxCandidates: number): Transformation {
  return {
    name: `up to ${maxCandidates} words that ${model.name} predicts`,
    kind: "swap",
    *apply(text, positions) {
      const answers = yield* predictWords(model, text, positions, false);
      return replaceWords(text, positions, (old, i) => {
        const pieces = answers[i]!;
        const words = pieces.length === 1 ? selectWords(pieces[0], { maxCandidates }) : combinePieces(pieces);
        return words.filter((word) => word !== old).slice(0, maxCandidates);
      });
    },
  };
}

/**
 * BERT-Attack's words as TextAttack takes them: of a single token, those of its first `count`
 * predictions that begin a word; of several tokens, the first `count` combinations in the order of
 * a Cartesian product, the last token first.
 */
export function replacePredictedInOrder(model: MaskedLanguageModel, count: number): Transformation {
  return {
    name: `up to ${count} words that ${model.name} predicts, in TextAttack's order`,
    kind: "swap",
    *apply(text, positions) {
      const answers = yield* predictWords(model, text, positions, false);
      return replaceWords(text, positions, (_, i) => {
        const pieces = answers[i]!.map((tokens) => tokens.slice(0, count));
        if (pieces.length !== 1) return listCombinations(pieces, count);
        return pieces[0]!.filter(({ isPiece, word }) => !isPiece && containsOneWord(word)).map(({ word }) => word);
      });
    },
  };
}

function listCombinations(pieces: WordTokens, count: number): string[] {
  if (pieces.length === 0) return [];
  const found: string[] = [];
  const indices = pieces.map(() => 0);
  while (found.length < count) {
    const word = indices.map((index, i) => pieces[i]![index]!.word).join("");
    if (containsOneWord(word)) found.push(word);
    let last = indices.length - 1;
    while (last >= 0 && ++indices[last]! === pieces[last]!.length) indices[last--] = 0;
    if (last < 0) break;
  }
  return found;
}

function combinePieces(pieces: WordTokens): string[] {
  if (pieces.length === 0 || pieces.length > combinationLimits.pieces) return [];
  let combined = [{ word: "", logProbability: 0 }];
  for (const options of pieces) {
    combined = combined
      .flatMap(({ word, logProbability }) =>
        options.slice(0, combinationLimits.perPiece).map((token) => ({
          word: word + token.word,
          logProbability: logProbability + Math.log(token.probability),
        })),
      )
      .sort((a, b) => b.logProbability - a.logProbability)
      .slice(0, combinationLimits.combinations);
  }
  return [...new Set(combined.map(({ word }) => word))].filter((word) => hasLetter(word) && isOneWord(word));
}
