import type { Constraint } from "../protocol.js";

/** The texts differ from the original in at most this many characters (Levenshtein distance). */
export function maxEditDistance(limit: number): Constraint {
  return {
    name: `edit distance of at most ${limit}`,
    allows: (candidate) =>
      computeEditDistance(candidate.original.texts.join("\n"), candidate.texts.join("\n"), limit) <= limit,
  };
}

/** The Levenshtein distance of two texts, or limit + 1 if it is larger than the limit. */
export function computeEditDistance(first: string, second: string, limit: number): number {
  let start = 0;
  while (start < first.length && first[start] === second[start]) start++;
  let [end, otherEnd] = [first.length, second.length];
  while (end > start && otherEnd > start && first[end - 1] === second[otherEnd - 1]) {
    end--;
    otherEnd--;
  }
  const [rows, columns] = [end - start, otherEnd - start];
  if (Math.abs(rows - columns) > limit) return limit + 1;
  let previous = Array.from({ length: columns + 1 }, (_, column) => column);
  for (let row = 1; row <= rows; row++) {
    const current = new Array<number>(columns + 1).fill(limit + 1);
    current[0] = row;
    // Cells farther from the diagonal than the limit cannot be on a short path.
    const last = Math.min(columns, row + limit);
    for (let column = Math.max(1, row - limit); column <= last; column++) {
      const cost = first[start + row - 1] === second[start + column - 1] ? 0 : 1;
      current[column] = Math.min(previous[column]! + 1, current[column - 1]! + 1, previous[column - 1]! + cost);
    }
    previous = current;
  }
  return Math.min(previous[columns]!, limit + 1);
}
