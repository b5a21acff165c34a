import { z } from "zod";
import { UserError } from "../../base/errors.js";
import { countSchema, orNull } from "../../base/validate.js";
import type { Model } from "../../models/index.js";
import { predictByParts } from "../../models/inference/predict-by-parts.js";
import type { Predictor, PreparedText } from "../../models/inference/predictor.js";
import type { Score } from "../../models/inference/score.js";
import {
  type CertifiedEdits,
  type CertifiedModel,
  createGuardModel,
  type Guard,
  getTieMargin,
} from "../../proofs/certificates/index.js";
import { readCalibration } from "../../runs/calibration.js";
import { RunFolder } from "../../runs/run-folder.js";
import type { RuntimeConfig } from "../../settings/runtime-config.js";
import { findModifiableFields } from "../../tasks/index.js";
import type { HiddenText } from "../../text/hidden-text.js";

export interface CertifiedUse {
  /** Null if complete texts are classified. */
  readonly certified: CertifiedModel | null;
  /** Null if the run has no threshold. */
  readonly guard: Guard | null;
}

export async function findCertifiedUse(
  { folder, labels }: Pick<Model, "folder" | "labels">,
  { precision }: Pick<RuntimeConfig, "precision">,
  options: GuardChoice = {},
): Promise<CertifiedUse> {
  const run = await RunFolder.containing(folder);
  const guard = await findGuard(run, labels, options);
  const voting = run?.certificate?.createModel?.({
    numLabels: labels.length,
    minMargin: getTieMargin(precision),
    // Undefined if an attacker may edit all.
    editableFields: run.config.task === null ? undefined : (findModifiableFields(run.config.task) ?? undefined),
  });
  if (voting && guard?.windows)
    throw new UserError("--windows: this model votes by groups of words. Leave --windows out.");
  if (voting) return { certified: voting, guard };
  if (!guard?.windows) return { certified: null, guard };
  return { certified: createGuardModel({ ...guard, minMargin: getTieMargin(precision) }), guard };
}

export interface UsedAnswer extends Score {
  readonly truncated?: boolean;
  readonly certified?: CertifiedEdits;
  readonly flagged?: boolean;
  /** Text that a language model reads, but a person does not see. */
  readonly hidden?: HiddenText;
}

export function wrapUse(base: Predictor, { certified, guard }: CertifiedUse): Predictor<PreparedText, UsedAnswer> {
  const used: Predictor<PreparedText, UsedAnswer> = certified
    ? predictByParts(base, { split: certified.split, combine: certified.answer })
    : base;
  return guard ? flagAnswers(used, guard) : used;
}

function flagAnswers(
  predictor: Predictor<PreparedText, UsedAnswer>,
  { positiveLabel, threshold }: Pick<Guard, "positiveLabel" | "threshold">,
): Predictor<PreparedText, UsedAnswer> {
  return {
    ...predictor,
    async predict(items, options) {
      return (await predictor.predict(items, options)).map((answer) => {
        const { probabilities } = answer;
        return { ...answer, probabilities, flagged: probabilities[positiveLabel]! > threshold };
      });
    },
  };
}

/** The certified model of a run that attacks attack; null if they attack the model itself. */
export async function findAttackedModel(
  model: Pick<Model, "folder" | "labels">,
  runtime: Pick<RuntimeConfig, "precision">,
  options: GuardChoice = {},
): Promise<CertifiedModel | null> {
  const { certified, guard } = await findCertifiedUse(model, runtime, options);
  if (certified && options.calibrated && !guard?.windows)
    throw new UserError("--calibrated: this model votes by groups of words. Leave --calibrated out.");
  if (certified) return certified;
  if (guard && options.calibrated) return createGuardModel({ ...guard, minMargin: getTieMargin(runtime.precision) });
  return null;
}

export const guardOptions = {
  windows: orNull(countSchema.max(1000), "complete texts").describe(
    "score texts by their windows of at most this many words, so that text before or after, separated by white space, cannot hide them",
  ),
  positiveLabel: orNull(z.string(), "as calibrated, else the second").describe("label that the guard flags"),
};

export const hiddenOptions = {
  rejectHidden: z
    .boolean()
    .default(false)
    .describe("refuse texts with hidden text, such as Unicode tags, which a language model reads and nobody sees"),
};

export type GuardChoice = z.input<z.ZodObject<typeof guardOptions>> & { readonly calibrated?: boolean | undefined };

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
  { windows: size = null, positiveLabel: given = null, calibrated = false }: GuardChoice,
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
