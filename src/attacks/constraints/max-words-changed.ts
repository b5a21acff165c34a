import type { Constraint } from "../protocol.js";

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
