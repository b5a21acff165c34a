import { type CertificateName, type CertificateOptions, certificateOptionsSchema } from "../../certificates/kinds.js";
import { getTieMargin } from "../../certificates/near-ties.js";
import type { TrainedCertificate } from "../../certificates/trained-certificate.js";
import { UserError } from "../../errors.js";
import type { RunFolder } from "../../runs/run-folder.js";
import type { Task } from "../../tasks/index.js";
import { findGuard } from "../calibrate/find-guard.js";
import type { ParsedCertifyRequest } from "./certify-request.js";

/** Texts that choose the class of a smoothed prediction. */
const classSamples = 100;

/** Rows of a table for each kind of edit. */
const defaultEdits = 5;

/** How a run is trained for a certificate, for error messages. */
const trainingMethods: Readonly<Record<TrainedCertificate["kind"], string>> = {
  "hash-vote": "hash-vote:groups=25",
  deletion: "deletion-noise:p=0.9",
};

/** The certificate of a request with the options that the model was trained with. */
export async function chooseCertificate(
  request: ParsedCertifyRequest & { readonly kind: CertificateName },
  run: RunFolder | null,
  labels: readonly string[],
  task: Pick<Task, "modifiableFields" | "fields">,
  precision: string,
): Promise<CertificateOptions> {
  const { kind } = request;
  const maxEdits = request.edits ?? defaultEdits;
  const shared = {
    numLabels: labels.length,
    editableFields: [...task.modifiableFields],
    minMargin: getTieMargin(precision),
  };
  const create = async (): Promise<CertificateOptions> => {
    if (kind === "canonical") return { kind, ...shared };
    if (kind === "windows") return createWindowOptions(request, run, labels, task, shared);
    const trained = requireTrained(request, run, kind);
    if (trained.kind === "hash-vote")
      return { ...trained, ...shared, maxEdits, enumeratesDeletions: request.enumerateDeletions };
    const { alpha, maxSamples } = request;
    return { ...trained, ...shared, maxEdits, alpha, maxSamples, classSamples };
  };
  return certificateOptionsSchema.parse(await create());
}

function requireTrained(
  { model }: ParsedCertifyRequest,
  run: RunFolder | null,
  kind: TrainedCertificate["kind"],
): TrainedCertificate {
  const trained = run?.certificate ?? null;
  if (trained?.kind === kind) return trained;
  const found = run ? (trained ? `is a run for --kind ${trained.kind}` : "was not trained for it") : "is not a run";
  throw new UserError(
    `--kind ${kind}: expected a run that was trained for this certificate, but ${model} ${found}. ` +
      `Train one: temper train … --method ${trainingMethods[kind]}`,
  );
}

/** A run that was calibrated for the same windows has its own threshold. */
async function createWindowOptions(
  { windows, positiveLabel: given }: ParsedCertifyRequest,
  run: RunFolder | null,
  labels: readonly string[],
  { fields }: Pick<Task, "fields">,
  shared: Pick<CertificateOptions, "numLabels" | "editableFields" | "minMargin">,
): Promise<CertificateOptions> {
  if (fields.length !== 1) throw new UserError("--kind windows: expected single texts, received pairs of texts.");
  const { positiveLabel, threshold } = (await findGuard(run, labels, { windows, positiveLabel: given }))!;
  return { kind: "windows", ...shared, size: windows, positiveLabel, threshold };
}
