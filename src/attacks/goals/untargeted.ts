import { isMisclassified } from "../search.js";
import type { Goal } from "./goal.js";

/** Any other class than the gold label: 1 - p(gold label). */
export const untargeted: Goal = {
  name: "untargeted",
  computeValue: ({ probabilities }, label) => 1 - probabilities[label]!,
  isReached: (score, label) => isMisclassified(score, label),
};
