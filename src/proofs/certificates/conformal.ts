import { UserError } from "../../base/errors.js";

/**
 * The k-th smallest of n calibration scores with k = ceil((n + 1) level). The next exchangeable
 * score is at most this one with probability at least `level`. Null if n is too small, so that
 * only an infinite threshold would do.
 */
export function computeConformalQuantile(scores: ArrayLike<number>, level: number): number | null {
  const sorted = Float64Array.from(scores).sort();
  if (sorted.some(Number.isNaN)) throw new RangeError("expected numbers as calibration scores, received NaN");
  const rank = computeConformalRank(sorted.length, level);
  return sorted[rank - 1] ?? null;
}

/** k = ceil((n + 1) level). The tolerance keeps 0.9 times 10 at 9. It is far below one rank. */
function computeConformalRank(count: number, level: number): number {
  return Math.ceil((count + 1) * level - 1e-9);
}

/** The fewest calibration texts for a level: the smallest n with ceil((n + 1) level) <= n. */
export function countNeededTexts(level: number): number {
  return Math.ceil(1 / (1 - level) - 1 - 1e-9);
}

/** A threshold with a contract about false alarms. */
export interface FalsePositiveContract {
  /** A text is flagged if its score is above the threshold. */
  readonly threshold: number;
  /** The promised rate. */
  readonly fpr: number;
  /** The number of benign calibration texts. */
  readonly examples: number;
}

/**
 * Sets a threshold by split conformal prediction: of n benign texts, it is the k-th smallest score
 * with k = ceil((n + 1)(1 - fpr)). For the next benign text that is exchangeable with them,
 * P(score > threshold) <= fpr, over the choice of all of them. The texts must not have been used
 * for training or for choosing anything that is evaluated.
 */
export function calibrateThreshold(benignScores: ArrayLike<number>, fpr: number): FalsePositiveContract {
  if (!(fpr > 0 && fpr < 1)) throw new UserError(`--fpr: expected a rate between 0 and 1, received ${fpr}.`);
  const threshold = computeConformalQuantile(benignScores, 1 - fpr);
  if (threshold === null)
    throw new UserError(
      `--benign: a false-positive rate of ${fpr} needs at least ${countNeededTexts(1 - fpr)} benign texts, ` +
        `received ${benignScores.length}. Add texts, or raise --fpr.`,
    );
  return { threshold, fpr, examples: benignScores.length };
}
