import type { Goal } from "./goal.js";
import { getHighestOther, isMisclassified } from "./score.js";

/** Any other class than the gold label: 1 - p(gold label). */
export const untargeted: Goal = {
  name: "untargeted",
  computeValue: ({ probabilities }, label) => 1 - probabilities[label]!,
  isReached: (score, label) => isMisclassified(score, label),
};

/**
 * The same goal for the fitness of the genetic attack: the sigmoid of the negative logit margin,
 * which is the log ratio of the two highest probabilities. With two classes it is 1 - p(y), too.
 */
export const untargetedByMargin: Goal = {
  ...untargeted,
  computeValue(score, label) {
    const other = getHighestOther(score, label);
    // This is sigmoid(-log(gold / other)) without the logarithm of zero.
    return other / (score.probabilities[label]! + other);
  },
};
