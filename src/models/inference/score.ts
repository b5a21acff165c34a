import { softmax } from "../../base/softmax.js";

export interface Score {
  readonly probabilities: ArrayLike<number>;
  readonly logits?: ArrayLike<number>;
}

/** Logits, whose probabilities are computed when somebody reads them. */
class LogitScore implements Score {
  #probabilities: Float32Array | undefined;

  constructor(readonly logits: Float32Array) {}

  get probabilities(): Float32Array {
    this.#probabilities ??= softmax(this.logits);
    return this.#probabilities;
  }
}

export function createScore(row: Float32Array, isLogits: boolean): Score {
  return isLogits ? new LogitScore(row) : { probabilities: row };
}

/** The row that a model computed: logits if they are known. */
export function getRow(score: Score): ArrayLike<number> {
  return score.logits ?? score.probabilities;
}

export function getHighestOther(values: ArrayLike<number>, label: number): number {
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
  if (logits) return logits[label]! - getHighestOther(logits, label);
  const log = (probability: number): number => Math.log(Math.max(probability, minProbability));
  return log(score.probabilities[label]!) - log(getHighestOther(score.probabilities, label));
}

/** The smallest positive number in float32. */
const minProbability = 2 ** -149;
