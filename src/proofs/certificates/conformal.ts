import { UserError } from "../../base/errors.js";
import type { LabelScores } from "./scoring.js";

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

/**
 * Calibrates sets of labels that contain the true one with probability `coverage`, by split conformal
 * prediction. The score of a text is 1 minus the probability of its true label. Returns the quantile
 * of the level coverage + Delta_r, which is the largest score of a label in a set. `shift` is Delta_r,
 * the total variation that the attacker's edits cause; 0 without edits.
 *
 * Under r word edits, each text must be noised once by the kernel with the bound Delta_r, here and
 * for every new text. The noised text of an edited text has the wrong set with a probability that
 * is at most Delta_r larger than that of the text itself, so the coverage remains (RCP1, arXiv
 * 2506.16553).
 */
export function calibrateLabelSets(
  rows: readonly LabelScores[],
  labels: readonly number[],
  coverage: number,
  shift = 0,
): number {
  if (rows.length !== labels.length) throw new RangeError("expected one label per text");
  if (!(coverage > 0 && coverage < 1))
    throw new UserError(`--coverage: expected a probability between 0 and 1, received ${coverage}.`);
  const level = coverage + shift;
  if (level >= 1)
    throw new UserError(
      `--coverage ${coverage}: the edits shift the noised texts by ${shift.toFixed(3)}, and the sum must be below 1. ` +
        "Use fewer edits, noise that deletes more words, or a lower coverage.",
    );
  const maxScore = computeConformalQuantile(
    rows.map((row, i) => 1 - row[labels[i]!]!),
    level,
  );
  if (maxScore === null)
    throw new UserError(
      `--coverage ${coverage} needs at least ${countNeededTexts(level)} calibration texts, received ${rows.length}. ` +
        "Add texts, or use a lower coverage.",
    );
  return maxScore;
}

/** The labels of a text whose scores are at most the calibrated one. */
export function listLabels(row: LabelScores, maxScore: number): number[] {
  return [...Array(row.length).keys()].filter((label) => 1 - row[label]! <= maxScore);
}
