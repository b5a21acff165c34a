import { createHash } from "node:crypto";
import { isOneWord } from "./find-words.js";
import { analyzeInflection } from "./inflection.js";
import { LineIndex } from "./line-index.js";
import type { PartOfSpeech } from "./part-of-speech.js";
import { readSynset, readWordNet, type WordNetPart, wordNetFiles, wordNetParts } from "./wordnet-files.js";

/** The suffix rules of NLTK's lookup, applied once. */
const rules: Readonly<Record<WordNetPart, readonly (readonly [suffix: string, replacement: string])[]>> = {
  noun: [
    ["s", ""],
    ["ses", "s"],
    ["ves", "f"],
    ["xes", "x"],
    ["zes", "z"],
    ["ches", "ch"],
    ["shes", "sh"],
    ["men", "man"],
    ["ies", "y"],
  ],
  verb: [
    ["s", ""],
    ["ies", "y"],
    ["es", "e"],
    ["es", ""],
    ["ed", "e"],
    ["ed", ""],
    ["ing", "e"],
    ["ing", ""],
  ],
  adjective: [
    ["er", ""],
    ["est", ""],
    ["er", "e"],
    ["est", "e"],
  ],
  adverb: [],
};

interface PartFile {
  /** A line per lemma. The number of synsets is its third field, and their offsets are the last. */
  readonly index: LineIndex;
  readonly data: string;
}

/**
 * WordNet as NLTK reads it, for recipes that use it directly: the lemmas of all synsets of a word,
 * as spelled, without phrases. Unlike `loadWordNet`, it does not inflect.
 */
export function loadWordNetLemmas(): {
  readonly hash: string;
  getLemmas(word: string, partOfSpeech?: PartOfSpeech): readonly string[];
} {
  const parts = new Map<WordNetPart, PartFile>();
  const getPart = (part: WordNetPart): PartFile => {
    const found = parts.get(part) ?? readPart(part);
    parts.set(part, found);
    return found;
  };
  const cache = new Map<string, readonly string[]>();
  return {
    hash: createHash("sha256").update("wordnet 3.1 lemmas, rules 1").digest("hex"),
    getLemmas(word, partOfSpeech) {
      if (partOfSpeech === "other") return [];
      const key = `${partOfSpeech ?? ""} ${word}`;
      const wanted = partOfSpeech ? [partOfSpeech] : wordNetParts;
      const lemmas =
        cache.get(key) ??
        [...new Set(wanted.flatMap((part) => findLemmas(getPart(part), part, word.toLowerCase())))].filter(
          (lemma) => lemma !== word && isOneWord(lemma),
        );
      cache.set(key, lemmas);
      return lemmas;
    },
  };
}

function findLemmas({ index, data }: PartFile, part: WordNetPart, word: string): string[] {
  // WordNet's lists of irregular forms are not in the package, so the lemmatizer finds them.
  const irregular = analyzeInflection(word, part).lemma;
  const regular = rules[part].flatMap(([suffix, replacement]) =>
    word.endsWith(suffix) ? [word.slice(0, word.length - suffix.length) + replacement] : [],
  );
  const forms = new Set([word, irregular, ...regular]);
  const offsets = [...forms].flatMap((form) => {
    const fields = index.get(form);
    return fields ? fields.slice(-Number(fields[2])).map(Number) : [];
  });
  const words = [...new Set(offsets)].flatMap((offset) => readSynset(data, offset));
  return words.filter((each) => !each.includes("_"));
}

function readPart(part: WordNetPart): PartFile {
  const file = wordNetFiles[part];
  return { index: new LineIndex(readWordNet(`index.${file}`)), data: readWordNet(`data.${file}`) };
}
