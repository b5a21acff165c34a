import { getHighestOther, logitMargin, type Score } from "../../models/inference/score.js";

/** The classification margin: the gold label's probability minus the highest other one. */
export function margin(score: Pick<Score, "probabilities">, label: number): number {
  return score.probabilities[label]! - getHighestOther(score.probabilities, label);
}

/** The logit margin of the original text after rescaling: its probability is then 0.98. */
const originalMargin = 4;

/**
 * The value of a score for searches, from 0 (the label is certain) to 1 (another class is). It is the
 * probability of the other class of the two at the temperature at which the original text has a
 * logit margin of 4. So a model whose logits are all multiplied by a number, which makes it look
 * overconfident, is searched in the same way.
 */
export function computeDoubt(score: Score, label: number, original: Score): number {
  const scale = Math.abs(logitMargin(original, label)) || 1;
  return 1 / (1 + Math.exp((originalMargin * logitMargin(score, label)) / scale));
}

/** Returns whether the margin is negative. A tie is not a misclassification. */
export function isMisclassified(score: Score, label: number): boolean {
  return logitMargin(score, label) < 0;
}

/** Below this margin, the summation order within a batch may decide the prediction. */
export const nearTieMargin = 1e-4;
