import { UserError } from "../../errors.js";
import { readCalibration } from "../../runs/calibration.js";
import type { RunFolder } from "../../runs/run-folder.js";

/** A guard that scores texts by their windows. */
export interface WindowGuard {
  /** Maximum words per window. */
  readonly size: number;
  /** The index of the label that is flagged. */
  readonly positiveLabel: number;
  readonly threshold: number;
}

/** The index of the label that a guard flags. */
export function findPositiveLabel(labels: readonly string[], given: string | null): number {
  if (given === null && labels.length !== 2)
    throw new UserError(
      `--positive-label: the model has ${labels.length} labels (${labels.join(", ")}). Name the one to flag.`,
    );
  const index = given === null ? 1 : labels.indexOf(given);
  if (index >= 0) return index;
  throw new UserError(`--positive-label: expected one of ${labels.join(", ")}, received ${JSON.stringify(given)}.`);
}

/**
 * The guard of a run with windows. If the run was calibrated for the same windows, the label and
 * the threshold are those of the calibration; otherwise the threshold is 0.5.
 */
export async function findGuard(
  run: RunFolder | null,
  labels: readonly string[],
  { size, positiveLabel: given }: { readonly size: number; readonly positiveLabel: string | null },
): Promise<WindowGuard> {
  if (labels.length !== 2)
    throw new UserError(`windows: expected a model with two labels, received ${labels.length}: ${labels.join(", ")}.`);
  const found = run && (await readCalibration(run.folder));
  const isSame = found?.windows === size && (given === null || given === found.positiveLabel);
  if (!found || !isSame) return { size, positiveLabel: findPositiveLabel(labels, given), threshold: 0.5 };
  return { size, positiveLabel: findPositiveLabel(labels, found.positiveLabel), threshold: found.threshold };
}
