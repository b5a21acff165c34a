import { UserError } from "../../base/errors.js";
import type { Model } from "../../models/index.js";
import { type CertifiedModel, createGuardModel, type Guard, getTieMargin } from "../../proofs/certificates/index.js";
import { RunFolder } from "../../runs/run-folder.js";
import type { RuntimeConfig } from "../../settings/runtime-config.js";
import { findModifiableFields } from "../../tasks/index.js";
import { findGuard, type GuardOptions } from "../calibrate/find-guard.js";

/** Scores the parts of all texts together. Row i of the result has the scores of the parts of text i. */
export async function classifyParts<Item, Row>(
  parts: readonly (readonly Item[])[],
  score: (items: readonly Item[]) => Promise<readonly Row[]>,
): Promise<(readonly Row[])[]> {
  const items = parts.flat();
  const rows = items.length === 0 ? [] : await score(items);
  return splitLike(rows, parts);
}

/** Splits texts into the parts that a certified model classifies, and encodes them together. */
export function encodeParts<Item>(
  texts: readonly (readonly string[])[],
  model: CertifiedModel,
  encode: (texts: readonly (readonly string[])[]) => readonly Item[],
): (readonly Item[])[] {
  const parts = texts.map((fields) => model.split(fields));
  return splitLike(encode(parts.flat()), parts);
}

function splitLike<Value>(values: readonly Value[], parts: readonly (readonly unknown[])[]): (readonly Value[])[] {
  let start = 0;
  return parts.map(({ length }) => {
    start += length;
    return values.slice(start - length, start);
  });
}

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
