import { UserError } from "../../base/errors.js";

/**
 * The k-th smallest of n calibration scores with k = ceil((n + 1) level). The next exchangeable
 * score is at most this one with probability at least `level`. Null if n is too small, so that
 * only an infinite threshold would do.
 */
export function computeConformalQuantile(scores: ArrayLike<number>, level: number): number | null {
  const sorted = Float64Array.from(scores).sort();
  if (sorted.some(Number.isNaN)) throw new RangeError("expected numbers as calibration scores, received NaN");
  // The tolerance keeps 0.9 times 10 at 9. It is far below one rank.
  const rank = Math.ceil((sorted.length + 1) * level - 1e-9);
  return sorted[rank - 1] ?? null;
}

/** The fewest calibration texts for a level: the smallest n with ceil((n + 1) level) <= n. */
export function countNeededTexts(level: number): number {
  return Math.ceil(1 / (1 - level) - 1 - 1e-9);
}

/**
 * Sets a threshold by split conformal prediction: of n benign texts, it is the k-th smallest score
 * with k = ceil((n + 1)(1 - fpr)). For the next benign text that is exchangeable with them,
 * P(score > threshold) <= fpr, over the choice of all of them. The texts must not have been used
 * for training or for choosing anything that is evaluated.
 */
export function calibrateThreshold(benignScores: ArrayLike<number>, fpr: number): number {
  if (!(fpr > 0 && fpr < 1)) throw new UserError(`--fpr: expected a rate between 0 and 1, received ${fpr}.`);
  checkBenignCount(benignScores.length, fpr);
  return computeConformalQuantile(benignScores, 1 - fpr)!;
}

/** Rejects too few benign texts for a rate, before they are scored. */
export function checkBenignCount(count: number, fpr: number): void {
  const needed = countNeededTexts(1 - fpr);
  if (count < needed)
    throw new UserError(
      `--benign: a false-positive rate of ${fpr} needs at least ${needed} benign texts, received ${count}. ` +
        "Add texts, or raise --fpr.",
    );
}
