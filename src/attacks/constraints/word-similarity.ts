import type { Constraint } from "../protocol.js";
import type { NeighborTable } from "../resources.js";

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
