import { z } from "zod";
import { UserError } from "../../base/errors.js";
import { countSchema, orNull } from "../../base/validate.js";
import type { Guard } from "../../proofs/certificates/index.js";
import { readCalibration } from "../../runs/calibration.js";
import type { RunFolder } from "../../runs/run-folder.js";

/** The keys of every request that uses a model as a guard. */
export const guardOptions = {
  windows: orNull(countSchema.max(1000), "complete texts").describe(
    "score texts by their windows of at most this many words, so that text before or after cannot hide them",
  ),
  positiveLabel: orNull(z.string(), "as calibrated, else the second").describe("label that the guard flags"),
};

/** The choice of a guard: its windows and label, and whether it must be the one that was calibrated. */
export type GuardOptions = z.input<z.ZodObject<typeof guardOptions>> & { readonly calibrated?: boolean | undefined };

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
 * The guard of a run. If the run was calibrated for the same windows, the label and the threshold
 * are those of the calibration. Otherwise a guard with windows has the threshold 0.5, and complete
 * texts have no guard.
 */
export async function findGuard(
  run: RunFolder | null,
  labels: readonly string[],
  { windows: size = null, positiveLabel: given = null, calibrated = false }: GuardOptions,
): Promise<Guard | null> {
  const found = run && (await readCalibration(run.folder));
  if (calibrated && !found)
    throw new UserError("--calibrated: expected a run with a threshold. Set one: temper calibrate RUN --benign FILE");
  const windows = calibrated ? (size ?? found!.windows) : size;
  if (windows !== null && labels.length !== 2)
    throw new UserError(`windows: expected a model with two labels, received ${labels.length}: ${labels.join(", ")}.`);
  if (given !== null) findPositiveLabel(labels, given);
  if (found && found.windows === windows && (given === null || given === found.positiveLabel)) {
    const { threshold, fpr } = found;
    return { windows, positiveLabel: findPositiveLabel(labels, found.positiveLabel), threshold, fpr };
  }
  if (calibrated)
    throw new UserError(
      `--calibrated: the run was calibrated for ${found!.windows === null ? "complete texts" : `--windows ${found!.windows}`} ` +
        `and --positive-label ${found!.positiveLabel}. Use the same, or calibrate it again.`,
    );
  if (windows === null) return null;
  return { windows, positiveLabel: findPositiveLabel(labels, given), threshold: 0.5, fpr: null };
}
