import { createHash } from "node:crypto";
import { getCachedBytes } from "../cache.js";
import { analyzeInflection, inflect } from "./inflection.js";
import { matchCase } from "./letter-case.js";
import type { PartOfSpeech } from "./part-of-speech.js";
import { isStopWord } from "./stop-words.js";
import { maxSubstitutes, type Substitutions } from "./substitutions.js";
import { readWordNet, type WordNetEntry } from "./wordnet-files.js";

/** Changes when the rules below do, so that journals and caches of other rules are not mistaken for these. */
const version = "wordnet 3.1, rules 1";

/** More synonyms than slots are kept, for some have no such inflection ("more splendid" is no word). */
const maxSynonyms = 12;

const parts: readonly PartOfSpeech[] = ["noun", "verb", "adjective", "adverb"];

/** WordNet's synonyms: same part of speech, single words, most frequent sense first, the word's inflection kept. */
export async function loadWordNet(): Promise<Substitutions> {
  const bytes = await getCachedBytes("wordnet", [version, maxSynonyms], async () =>
    Buffer.from(formatTable(readWordNet(maxSynonyms))),
  );
  const table = parseTable(Buffer.from(bytes).toString());
  const answers = new Map<string, readonly string[]>();

  function findSynonyms(word: string, partOfSpeech?: PartOfSpeech): readonly string[] {
    if (isStopWord(word) || partOfSpeech === "other") return [];
    const readings = (partOfSpeech ? [partOfSpeech] : parts).map((part) => {
      const { lemma, form } = analyzeInflection(word, part);
      return { form, entry: table.get(`${part} ${lemma}`) };
    });
    const known = readings.filter((reading) => reading.entry !== undefined);
    if (known.length === 0) return [];
    const best = known.reduce((a, b) => (b.entry!.count > a.entry!.count ? b : a));
    const inflected = best.entry!.synonyms.map((synonym) => inflect(synonym, best.form));
    return [...new Set(inflected)]
      .filter((other): other is string => other !== undefined && other !== word)
      .slice(0, maxSubstitutes);
  }

  return {
    name: "wordnet",
    hash: createHash("sha256").update(version).digest("hex"),
    usesPartOfSpeech: true,
    getSubstitutes(word, partOfSpeech) {
      const key = `${partOfSpeech ?? ""} ${word.toLowerCase()}`;
      const found = answers.get(key) ?? findSynonyms(word.toLowerCase(), partOfSpeech);
      answers.set(key, found);
      return found.map((other) => matchCase(word, other));
    },
  };
}

/** One line an entry: part, lemma, count, synonyms; a small part of WordNet's own files in size and reading time. */
function formatTable(entries: readonly WordNetEntry[]): string {
  return entries
    .map(({ part, lemma, count, synonyms }) => `${part} ${lemma} ${count} ${synonyms.join(" ")}`.trimEnd())
    .join("\n");
}

function parseTable(text: string): Map<string, Pick<WordNetEntry, "count" | "synonyms">> {
  return new Map(
    text.split("\n").map((line) => {
      const [part, lemma, count, ...synonyms] = line.split(" ");
      return [`${part} ${lemma}`, { count: Number(count), synonyms }];
    }),
  );
}
