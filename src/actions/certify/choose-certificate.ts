import { UserError } from "../../base/errors.js";
import {
  type Certificate,
  type CertificateDefinition,
  createCertificate,
  getTieMargin,
} from "../../proofs/certificates/index.js";
import type { RunFolder } from "../../runs/run-folder.js";
import type { Task } from "../../tasks/index.js";
import { findGuard } from "../calibrate/find-guard.js";
import type { TextClassifier } from "../predict/text-classifier.js";

interface CertificateChoice {
  readonly definition: CertificateDefinition;
  /** The options of the request, with their defaults. */
  readonly options: unknown;
  readonly edits: number;
}

/** Creates a certificate with the options of a request, and with those that the model was trained with. */
export async function chooseCertificate(
  { definition, options, edits }: CertificateChoice,
  run: RunFolder | null,
  { model, runtime }: Pick<TextClassifier, "model" | "runtime">,
  { modifiableFields, fields }: Pick<Task, "modifiableFields" | "fields">,
): Promise<Certificate> {
  const { labels } = model;
  const chosen = await definition.resolve?.(options, {
    numFields: fields.length,
    findGuard: async (choice) => (await findGuard(run, labels, choice))!,
  });
  const recorded = {
    kind: definition.name,
    numLabels: labels.length,
    editableFields: [...modifiableFields],
    minMargin: getTieMargin(runtime.precision),
    ...("maxEdits" in definition.recorded && { maxEdits: edits }),
    ...findTraining(definition, run, run?.folder ?? model.reference),
    ...(chosen ?? (options as object)),
  };
  return createCertificate(definition, recorded, `--kind ${definition.name}`);
}

/** The options of the training that a certificate depends on. A run with another training is an error. */
function findTraining({ name, trainedBy }: CertificateDefinition, run: RunFolder | null, reference: string): object {
  if (trainedBy === undefined) return {};
  const trained = run?.certificate ?? null;
  if (trained?.definition.name === name) return trained.options;
  const found = run
    ? trained
      ? `is a run for --kind ${trained.definition.name}`
      : "was not trained for it"
    : "is not a run";
  throw new UserError(
    `--kind ${name}: expected a run that was trained for this certificate, but ${reference} ${found}. ` +
      `Train one: temper train … --method ${trainedBy}`,
  );
}
