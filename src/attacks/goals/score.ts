import { softmax } from "../../base/softmax.js";

/** The victim's answer for one text. */
export interface Score {
  /** One probability per class. */
  readonly probabilities: ArrayLike<number>;
  /** One logit per class, if the victim knows them. */
  readonly logits?: ArrayLike<number>;
}

/** The classification margin: the gold label's probability minus the highest other one. */
export function margin(score: Score, label: number): number {
  return score.probabilities[label]! - getHighest(score.probabilities, label);
}

/** The highest value of the other classes. */
function getHighest(values: ArrayLike<number>, label: number): number {
  let other = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < values.length; i++) if (i !== label) other = Math.max(other, values[i]!);
  return other;
}

/**
 * The logit margin: the gold label's logit minus the highest other one. Probabilities give the
 * logarithm of their ratio, which is the same number unless one of them was rounded to 0.
 */
export function logitMargin(score: Score, label: number): number {
  const { logits } = score;
  if (logits) return logits[label]! - getHighest(logits, label);
  const log = (probability: number): number => Math.log(Math.max(probability, minProbability));
  return log(score.probabilities[label]!) - log(getHighest(score.probabilities, label));
}

/** The smallest positive number in float32. */
const minProbability = 2 ** -149;

/** The logit margin of the original text after rescaling: its probability is then 0.98. */
const originalMargin = 4;

/**
 * What searches see of a score, from 0 (the label is certain) to 1 (another class is). It is the
 * probability of the other class of the two at the temperature at which the original text has a
 * logit margin of 4. So a model whose logits are all multiplied by a number, which makes it look
 * overconfident, is searched in the same way.
 */
export function computeDoubt(score: Score, label: number, original: Score): number {
  const scale = Math.abs(logitMargin(original, label)) || 1;
  return 1 / (1 + Math.exp((originalMargin * logitMargin(score, label)) / scale));
}

/** Creates the score of a row of logits or probabilities. */
export function createScore(row: Float32Array, isLogits: boolean): Score {
  return isLogits ? { logits: row, probabilities: softmax(row) } : { probabilities: row };
}

/** Returns whether the margin is negative. A tie is not a misclassification. */
export function isMisclassified(score: Score, label: number): boolean {
  return logitMargin(score, label) < 0;
}

/** Below this margin, the summation order within a batch may decide the prediction. */
export const nearTieMargin = 1e-4;
