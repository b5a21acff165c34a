import { UserError } from "../../base/errors.js";
import {
  type Certificate,
  type CertificateDefinition,
  createCertificate,
  getTieMargin,
  type TrainedCertificate,
} from "../../proofs/certificates/index.js";
import type { RunFolder } from "../../runs/run-folder.js";
import type { Task } from "../../tasks/index.js";
import { findGuard } from "../calibrate/find-guard.js";
import type { TextClassifier } from "../predict/text-classifier.js";

/** Rows of a table for each kind of edit. */
const defaultEdits = 5;

interface CertificateChoice {
  readonly definition: CertificateDefinition;
  /** The options of the request, with their defaults. */
  readonly options: unknown;
  readonly edits: number | null;
}

/** Creates a certificate with the options of a request, and with those that the model was trained with. */
export async function chooseCertificate(
  { definition, options, edits }: CertificateChoice,
  run: RunFolder | null,
  { model, runtime }: Pick<TextClassifier, "model" | "runtime">,
  { modifiableFields, fields }: Pick<Task, "modifiableFields" | "fields">,
): Promise<Certificate> {
  const { labels } = model;
  const resolved = await definition.resolve?.(options, {
    labels,
    numFields: fields.length,
    maxEdits: edits ?? defaultEdits,
    requireTraining: (method) => requireTraining(definition.name, method, run, run?.folder ?? model.reference),
    findGuard: async (choice) => (await findGuard(run, labels, choice))!,
  });
  const recorded = {
    kind: definition.name,
    numLabels: labels.length,
    editableFields: [...modifiableFields],
    minMargin: getTieMargin(runtime.precision),
    ...(resolved ?? (options as object)),
  };
  return createCertificate(definition, recorded, `--kind ${definition.name}`);
}

function requireTraining(
  name: string,
  method: string,
  run: RunFolder | null,
  reference: string,
): TrainedCertificate["options"] {
  const trained = run?.certificate ?? null;
  if (trained?.definition.name === name) return trained.options;
  const found = run
    ? trained
      ? `is a run for --kind ${trained.definition.name}`
      : "was not trained for it"
    : "is not a run";
  throw new UserError(
    `--kind ${name}: expected a run that was trained for this certificate, but ${reference} ${found}. ` +
      `Train one: temper train … --method ${method}`,
  );
}
