import type { Goal } from "./goal.js";
import { computeDoubt, isMisclassified } from "./score.js";

/**
 * As few words as possible with the same prediction (Feng et al. 2018): the fraction of removed
 * words, plus p(gold label) at a fixed temperature / number of original words, at most 1. A changed prediction has
 * value 0.
 */
export const inputReduction: Goal = {
  name: "input-reduction",
  isMaximized: true,
  keepsPrediction: true,
  computeValue(score, label, text, original) {
    if (isMisclassified(score, label)) return 0;
    const count = text.original.length;
    return Math.min(1, (count - text.length + 1 - computeDoubt(score, label, original)) / Math.max(1, count));
  },
  isReached: (score, label, text) => !isMisclassified(score, label) && text.length < text.original.length,
};
