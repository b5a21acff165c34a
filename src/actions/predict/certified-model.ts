import { UserError } from "../../base/errors.js";
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
import { RunFolder } from "../../runs/run-folder.js";
import type { RuntimeConfig } from "../../settings/runtime-config.js";
import { findModifiableFields } from "../../tasks/index.js";
import { findGuard, type GuardOptions } from "../calibrate/find-guard.js";

/** How a model is used: the certified model around it, and the guard that flags texts. */
export interface CertifiedUse {
  /** Null if complete texts are classified. */
  readonly certified: CertifiedModel | null;
  /** Null if the run has no threshold. */
  readonly guard: Guard | null;
}

/**
 * How the model of a run is used. A run with hash-vote votes. With windows, or with a calibrated
 * threshold, it is a guard.
 */
export async function findCertifiedUse(
  { folder, labels }: Pick<Model, "folder" | "labels">,
  { precision }: Pick<RuntimeConfig, "precision">,
  options: GuardOptions = {},
): Promise<CertifiedUse> {
  const run = await RunFolder.containing(folder);
  const guard = await findGuard(run, labels, options);
  const voting = run?.certificate?.createModel?.({
    numLabels: labels.length,
    minMargin: getTieMargin(precision),
    editableFields: findEditableFields(run),
  });
  if (voting && guard?.windows)
    throw new UserError("--windows: this model votes by groups of words. Leave --windows out.");
  if (voting) return { certified: voting, guard };
  if (!guard?.windows) return { certified: null, guard };
  return { certified: createGuardModel({ ...guard, minMargin: getTieMargin(precision) }), guard };
}

/** The answer of a model as it is used. */
export interface UsedAnswer extends Score {
  readonly truncated?: boolean;
  readonly certified?: CertifiedEdits;
  /** True if the guard flags the text, if there is one. */
  readonly flagged?: boolean;
}

/** Wraps the predictor of a model as it is used: the certified model answers, and the guard flags. */
export function wrapUse(base: Predictor, { certified, guard }: CertifiedUse): Predictor<PreparedText, UsedAnswer> {
  const used: Predictor<PreparedText, UsedAnswer> = certified
    ? predictByParts(base, { split: certified.split, combine: certified.answer })
    : base;
  return guard ? flagAnswers(used, guard) : used;
}

/** Wraps a predictor so that its answers say whether the score of a label is above a threshold. */
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

/** The fields that an attacker may edit; undefined if all. */
export function findEditableFields({ config }: RunFolder): readonly number[] | undefined {
  return config.task === null ? undefined : (findModifiableFields(config.task) ?? undefined);
}

/** The certified model of a run that attacks attack; null if they attack the model itself. */
export async function findAttackedModel(
  model: Pick<Model, "folder" | "labels">,
  runtime: Pick<RuntimeConfig, "precision">,
  options: GuardOptions = {},
): Promise<CertifiedModel | null> {
  const { certified, guard } = await findCertifiedUse(model, runtime, options);
  if (certified && options.calibrated && !guard?.windows)
    throw new UserError("--calibrated: this model votes by groups of words. Leave --calibrated out.");
  if (certified) return certified;
  if (guard && options.calibrated) return createGuardModel({ ...guard, minMargin: getTieMargin(runtime.precision) });
  return null;
}
