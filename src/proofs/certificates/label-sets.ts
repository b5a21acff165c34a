import { UserError } from "../../base/errors.js";
import { computeConformalQuantile, countNeededTexts } from "./conformal.js";
import type { LabelScores } from "./scoring.js";

/**
 * A rule that gives each text a set of labels, which contains the true one with a probability.
 */
export interface LabelSetRule {
  /** A label is in the set if 1 minus its probability is at most this. */
  readonly maxScore: number;
  readonly coverage: number;
  /** The total variation that the attacker's edits cause, Delta_r; 0 without edits. */
  readonly shift: number;
  readonly examples: number;
}

/**
 * Calibrates label sets by split conformal prediction. The score of a text is 1 minus the
 * probability of its true label, and the quantile is that of the level 1 - a + Delta_r.
 *
 * Under r word edits, each text must be noised once by the kernel with the bound Delta_r, here and
 * for every new text. The noised text of an edited text has the wrong set with a probability that
 * is at most Delta_r larger than that of the text itself, so 1 - a remains (RCP1, arXiv
 * 2506.16553).
 */
export function calibrateLabelSets(
  rows: readonly LabelScores[],
  labels: readonly number[],
  coverage: number,
  shift = 0,
): LabelSetRule {
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
  return { maxScore, coverage, shift, examples: rows.length };
}

/** The labels of a text that the rule cannot exclude. */
export function listLabels(row: LabelScores, { maxScore }: LabelSetRule): number[] {
  return [...Array(row.length).keys()].filter((label) => 1 - row[label]! <= maxScore);
}
