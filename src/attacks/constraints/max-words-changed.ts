import type { Constraint } from "../recipe.js";

/** At most this many words of the original text change. */
export function maxWordsChanged(limit: { readonly count: number } | { readonly fraction: number }): Constraint {
  const getLimit = (words: number): number => ("count" in limit ? limit.count : Math.ceil(words * limit.fraction));
  return {
    name:
      "count" in limit ? `at most ${limit.count} words changed` : `at most ${100 * limit.fraction}% of words changed`,
    allows: (candidate) => candidate.numChanged <= getLimit(candidate.original.length),
  };
}

/**
 * No word is open as soon as this fraction has changed. As in TextAttack, texts that a search
 * combines may have more changes.
 */
export function closeAtModificationRate(rate: number): Constraint {
  return {
    name: `no change beyond ${100 * rate}% of words`,
    isOpen: (text) => text.numChanged < Math.max(Math.ceil(text.length * rate), 1),
  };
}

/** Like a maximum fraction, but short texts may change some words, too. */
export function maxModificationRate(rate: number, minWords = 1): Constraint {
  const getLimit = (words: number): number => Math.max(Math.ceil(words * rate), minWords);
  return {
    name: `at most ${100 * rate}% of words changed, or ${minWords}`,
    isOpen: (text, position) => text.isChanged(position) || text.numChanged < getLimit(text.original.length),
    allows: (candidate) => candidate.numChanged <= getLimit(candidate.original.length),
  };
}
