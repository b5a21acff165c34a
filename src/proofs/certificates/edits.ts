/**
 * A number of word edits: so many substitutions of a word by any word, and so many insertions or
 * deletions of a word, in any order.
 */
export interface WordEdits {
  readonly substitutions: number;
  /** Insertions and deletions together. */
  readonly insertions: number;
}

/** All numbers of edits up to a limit of each, the fewest substitutions first. */
export function listWordEdits(maxSubstitutions: number, maxInsertions: number): WordEdits[] {
  return Array.from({ length: maxSubstitutions + 1 }, (_, substitutions) =>
    Array.from({ length: maxInsertions + 1 }, (_, insertions) => ({ substitutions, insertions })),
  ).flat();
}
