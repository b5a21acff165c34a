/** The victim's answer for one text. */
export interface Score {
  /** One probability per class. */
  readonly probabilities: ArrayLike<number>;
}

/** The classification margin: the gold label's probability minus the highest other one. */
export function margin(score: Score, label: number): number {
  return score.probabilities[label]! - getHighestOther(score, label);
}

/** The highest probability of the other classes. */
export function getHighestOther({ probabilities }: Score, label: number): number {
  let other = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < probabilities.length; i++) if (i !== label) other = Math.max(other, probabilities[i]!);
  return other;
}

/** Returns whether the margin is negative. A tie is not a misclassification. */
export function isMisclassified(score: Score, label: number): boolean {
  return margin(score, label) < 0;
}

/** Below this margin, the summation order within a batch may decide the prediction. */
export const nearTieMargin = 1e-4;
