import type { WinkMethods, PartOfSpeech as WinkTag } from "wink-nlp";
import { loadTagger } from "./load-tagger.js";

/**
 * The parts of speech that have synonyms. Names, function words, numbers and punctuation are
 * "other".
 */
export type PartOfSpeech = "noun" | "verb" | "adjective" | "adverb" | "other";

const partOfSpeechByTag: Partial<Record<WinkTag, PartOfSpeech>> = {
  NOUN: "noun",
  VERB: "verb",
  ADJ: "adjective",
  ADV: "adverb",
};

let tagger: WinkMethods | undefined;

/** Tags every word with its part of speech in context. */
export function tagPartsOfSpeech(words: readonly string[]): PartOfSpeech[] {
  return tagWords(words).map((tag) => (tag && partOfSpeechByTag[tag]) ?? "other");
}

/** The twelve tags of NLTK's universal tag set. */
export type UniversalTag =
  | "ADJ"
  | "ADP"
  | "ADV"
  | "CONJ"
  | "DET"
  | "NOUN"
  | "NUM"
  | "PRON"
  | "PRT"
  | "VERB"
  | "X"
  | ".";

const universalByTag: Partial<Record<WinkTag, UniversalTag>> = {
  PROPN: "NOUN",
  AUX: "VERB",
  CCONJ: "CONJ",
  SCONJ: "ADP",
  PART: "PRT",
  INTJ: "X",
  SYM: "X",
  PUNCT: ".",
  ADJ: "ADJ",
  ADP: "ADP",
  ADV: "ADV",
  DET: "DET",
  NOUN: "NOUN",
  NUM: "NUM",
  PRON: "PRON",
  VERB: "VERB",
};

/** Tags every word with NLTK's universal tag set, as TextAttack's recipes compare them. */
export function tagUniversal(words: readonly string[]): UniversalTag[] {
  return tagWords(words).map((tag) => (tag && universalByTag[tag]) ?? "X");
}

function tagWords(words: readonly string[]): (WinkTag | undefined)[] {
  tagger ??= loadTagger();
  const { readDoc, its } = tagger;
  const tokens = readDoc(words.join(" ")).tokens();
  const values = tokens.out(its.value) as string[];
  const spaces = tokens.out(its.precedingSpaces) as string[];
  const tags = tokens.out(its.pos) as WinkTag[];
  // The tagger splits some words ("didn't" -> "did", "n't"). The first piece gives the tag of the
  // word.
  const tagAt = new Map<number, WinkTag>();
  let offset = 0;
  for (let i = 0; i < values.length; i++) {
    offset += spaces[i]!.length;
    tagAt.set(offset, tags[i]!);
    offset += values[i]!.length;
  }
  let start = 0;
  return words.map((word) => {
    const tag = tagAt.get(start);
    start += word.length + 1;
    return tag;
  });
}
