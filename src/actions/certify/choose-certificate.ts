import { UserError } from "../../base/errors.js";
import { readJson } from "../../base/files.js";
import type { Model } from "../../models/index.js";
import {
  type CertificateName,
  type CertificateOptions,
  certificateOptionsSchema,
} from "../../proofs/certificates/kinds.js";
import { getTieMargin } from "../../proofs/certificates/near-ties.js";
import { createSynonymClusters } from "../../proofs/certificates/synonyms.js";
import type { TrainedCertificate } from "../../proofs/certificates/trained-certificate.js";
import type { RunFolder } from "../../runs/run-folder.js";
import { resolveTablePath } from "../../settings/read-config.js";
import type { Task } from "../../tasks/index.js";
import { parseSubstitutionTable } from "../../text/substitutions.js";
import { findGuard } from "../calibrate/find-guard.js";
import type { TextClassifier } from "../predict/text-classifier.js";
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
  { model, runtime }: Pick<TextClassifier, "model" | "runtime">,
  task: Pick<Task, "modifiableFields" | "fields">,
): Promise<CertificateOptions> {
  const { kind, alpha, maxSamples } = request;
  const { labels } = model;
  const maxEdits = request.edits ?? defaultEdits;
  const shared = {
    numLabels: labels.length,
    editableFields: [...task.modifiableFields],
    minMargin: getTieMargin(runtime.precision),
  };
  const smoothing = { ...shared, alpha, maxSamples, classSamples };
  const create = async (): Promise<CertificateOptions> => {
    if (kind === "canonical") return { kind, ...shared };
    if (kind === "windows") return createWindowOptions(request, run, labels, task, shared);
    if (kind === "synonym") return { kind, ...smoothing, clusters: await loadClusters(request, run) };
    if (kind === "mask") return { kind, ...smoothing, maxEdits, rate: request.maskRate, mask: getMaskToken(model) };
    const trained = requireTrained(request, run, kind);
    if (trained.kind === "hash-vote")
      return { ...trained, ...shared, maxEdits, enumeratesDeletions: request.enumerateDeletions };
    return { ...trained, ...smoothing, maxEdits };
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

/**
 * Only mutual neighbors among the first three of each word are joined. With more, clusters of the
 * counter-fitted table grow to thousands of words.
 */
const mutualNeighbors = 3;

async function loadClusters({ resources }: ParsedCertifyRequest, run: RunFolder | null): Promise<string[][]> {
  const path = resources.substitutions ?? run?.config.substitutions ?? "wordnet";
  if (path === "wordnet")
    throw new UserError(
      "--kind synonym: expected a table of neighbors, best first, received WordNet. Pass --substitutions FILE.json.",
    );
  const raw = await readJson(resolveTablePath(path), "the substitution table");
  const { getSubstitutes } = parseSubstitutionTable(raw, path);
  const words = Object.keys(raw as object).map((word) => word.toLowerCase());
  const neighbors = new Map(words.map((word) => [word, getSubstitutes(word)] as const));
  const { clusters } = createSynonymClusters(neighbors, mutualNeighbors);
  if (clusters.length === 0)
    throw new UserError(`--kind synonym: no two words of ${path} are neighbors of each other. Pass another table.`);
  return clusters.map((members) => [...members]);
}

function getMaskToken({ reference, tokenizer }: Model): string {
  const { maskId } = tokenizer.special;
  if (maskId === null)
    throw new UserError(
      `--kind mask: expected a model with a mask token, but ${reference} has none. Use --kind deletion.`,
    );
  return tokenizer.idsToTokens([maskId])[0]!;
}

/** A run that was calibrated for the same windows has its own threshold. */
async function createWindowOptions(
  { guard }: ParsedCertifyRequest,
  run: RunFolder | null,
  labels: readonly string[],
  { fields }: Pick<Task, "fields">,
  shared: Pick<CertificateOptions, "numLabels" | "editableFields" | "minMargin">,
): Promise<CertificateOptions> {
  if (fields.length !== 1) throw new UserError("--kind windows: expected single texts, received pairs of texts.");
  const { positiveLabel, threshold } = (await findGuard(run, labels, guard))!;
  return { kind: "windows", ...shared, size: guard.windows, positiveLabel, threshold };
}
