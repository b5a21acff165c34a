import type { Constraint } from "../protocol.js";

/** The texts differ from the original in at most this many characters (Levenshtein distance). */
export function maxEditDistance(limit: number): Constraint {
  return {
    name: `edit distance of at most ${limit}`,
    allows: (candidate) =>
      computeEditDistance(candidate.original.texts.join("\n"), candidate.texts.join("\n"), limit) <= limit,
  };
}

/**
 * The Levenshtein distance of two texts, or limit + 1 if it is larger than the limit. For each number
 * of edits and each diagonal (column - row), it computes the farthest row that the edits reach
 * (Ukkonen, 1985). So equal characters cost little, however long the texts are.
 */
export function computeEditDistance(first: string, second: string, limit: number): number {
  const getDiagonal = (diagonal: number): number => diagonal + limit + 1;
  let previous = new Array<number>(2 * limit + 3).fill(-1);
  for (let edits = 0; edits <= limit; edits++) {
    const reached = [...previous];
    for (let diagonal = -edits; diagonal <= edits; diagonal++) {
      const i = getDiagonal(diagonal);
      // A substitution, a deletion or an insertion.
      const next = Math.max(previous[i]! + 1, previous[i + 1]! + 1, previous[i - 1]!);
      let row = Math.min(next, first.length, second.length - diagonal);
      // Outside of a text, the code is NaN, which is never equal.
      while (first.charCodeAt(row) === second.charCodeAt(row + diagonal)) row++;
      reached[i] = row;
    }
    if (reached[getDiagonal(second.length - first.length)] === first.length) return edits;
    previous = reached;
  }
  return limit + 1;
}
