import { nltkStopWords } from "../../text/stop-words.js";
import type { Constraint } from "../protocol.js";
import type { NeighborTable } from "../resources.js";

/** The largest number of words for a fraction. It is rounded up, as in TextAttack. */
function countWords(words: number, fraction: number): number {
  return Math.ceil(words * fraction);
}

/** At most this many words of the original text change. */
export function maxWordsChanged(limit: { readonly count: number } | { readonly fraction: number }): Constraint {
  const getLimit = (words: number): number => ("count" in limit ? limit.count : countWords(words, limit.fraction));
  return {
    name:
      "count" in limit ? `at most ${limit.count} words changed` : `at most ${100 * limit.fraction}% of words changed`,
    allows: (candidate) => candidate.numChanged <= getLimit(candidate.original.length),
  };
}

/** Like a maximum fraction, but short texts may change some words, too. */
export function maxModificationRate(rate: number, minWords = 1): Constraint {
  const getLimit = (words: number): number => Math.max(countWords(words, rate), minWords);
  return {
    name: `at most ${100 * rate}% of words changed${minWords > 0 ? `, or ${minWords}` : ""}`,
    isOpen: (text, position) => text.isChanged(position) || text.numChanged < getLimit(text.original.length),
    allows: (candidate) => candidate.numChanged <= getLimit(candidate.original.length),
  };
}

/** Only words of at least this many characters change. */
export function minWordLength(length: number): Constraint {
  return {
    name: `words of at least ${length} characters`,
    isOpen: (text, position) => text.getWord(position).length >= length,
  };
}

/** Only the words of some fields change, such as the hypothesis of a pair. */
export function onlyFields(fields: readonly number[]): Constraint {
  return {
    name: "fields",
    isOpen: (text, position) => fields.includes(text.slots[position]!.field),
  };
}

/** A word changes at most once, and no two words are inserted next to each other. */
export const noRepeat: Constraint = {
  name: "repeat",
  isOpen: (text, position, kind) =>
    kind === "insert"
      ? text.getOrigin(position) >= 0 && (position === 0 || text.getOrigin(position - 1) !== -1)
      : !text.isChanged(position),
};

/** Stop words are not replaced. In TextAttack, only lowercase words are stop words. */
export function keepStopWords(
  options: { readonly words?: ReadonlySet<string>; readonly caseSensitive?: boolean } = {},
): Constraint {
  const { words = nltkStopWords, caseSensitive = false } = options;
  return {
    name: "stop words",
    isOpen(text, position, kind) {
      if (kind !== "swap") return true;
      const word = text.getWord(position);
      return !words.has(caseSensitive ? word : word.toLowerCase());
    },
  };
}

/**
 * Stop words stay, and no new word is a stop word: the constraint of a request, for every kind of
 * change.
 */
export const protectStopWords: Constraint = {
  name: "stop words are neither changed nor added",
  isOpen: (text, position, kind) =>
    kind === "insert" || kind === "append" || !nltkStopWords.has(text.getWord(position).toLowerCase()),
  allows(candidate, current) {
    const { edit } = candidate;
    if (edit === null || !("word" in edit)) return true;
    // A word may become the original one again.
    const isBack = edit.kind === "replace" && edit.word === current.original.words[candidate.origin];
    return isBack || !edit.word.split(/\s+/).some((word) => nltkStopWords.has(word.toLowerCase()));
  },
};

/**
 * The vectors of a substitute and of the word have at least this cosine similarity. Words without
 * a vector are allowed, and so is everything if the table has no vectors.
 */
export function minWordSimilarity(table: NeighborTable, minSimilarity: number): Constraint {
  return {
    name: `word similarity of at least ${minSimilarity}`,
    allows({ edit, original, origin }) {
      if (edit?.kind !== "replace" || origin < 0 || !table.computeSimilarity) return true;
      const similarity = table.computeSimilarity(original.getWord(origin), edit.word);
      return similarity === undefined || similarity >= minSimilarity;
    },
  };
}
