import type { Goal } from "./goal.js";
import { computeDoubt, isMisclassified } from "./score.js";

/** Any other class than the gold label: the smaller the logit margin, the better. */
export const untargeted: Goal = {
  name: "untargeted",
  computeValue: (score, label, _, original) => computeDoubt(score, label, original),
  isReached: (score, label) => isMisclassified(score, label),
};
