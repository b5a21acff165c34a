import { z } from "zod";
import { LineWriter } from "../base/checked-lines.js";
import { UserError } from "../base/errors.js";
import { type Callbacks, reportProgress } from "../base/events.js";
import { parseSpec } from "../base/spec.js";
import { countSchema, orNull, seedSchema, validate } from "../base/validate.js";
import { checkLabels, hashModelFolder } from "../models/index.js";
import {
  type Certificate,
  type CertificateDefinition,
  certificates,
  certifyInRounds,
  createCertificate,
  findCertificate,
  getTieMargin,
} from "../proofs/certificates/index.js";
import { type CertificateHeader, certificateFormat } from "../proofs/index.js";
import {
  type CertificateReport,
  getCertificateJournalPath,
  lockCertificateFolder,
  summarizeCertificates,
  writeCertificateReport,
} from "../runs/certificate-folder.js";
import { hashExamples } from "../runs/environment.js";
import { RunFolder } from "../runs/run-folder.js";
import { dataOptions } from "../settings/config.js";
import { runtimeOptions } from "../settings/runtime-config.js";
import type { Task } from "../tasks/index.js";
import { Interrupted } from "../train/index.js";
import { attackRequestSchema } from "./attack/attack-request.js";
import { sampleAttacked } from "./attack/sample-attacked.js";
import { loadRequestedTask } from "./load/load-task.js";
import { findGuard } from "./predict/certified-model.js";
import { loadClassifier, type TextClassifier } from "./predict/text-classifier.js";

const namedSchema = z.string().transform((text) => {
  const { name, options } = parseSpec(text, "--kind");
  return { definition: findCertificate(name, "--kind"), options };
});
const definedSchema = z.strictObject({
  definition: z.custom<CertificateDefinition>(
    (value) => typeof value === "object" && value !== null && "create" in value,
  ),
  options: z.record(z.string(), z.unknown()).default({}),
});
const kindSchema = z
  .union([namedSchema, definedSchema], {
    error: 'expected a certificate ("hash-vote", "windows:size=32") or { definition, options }',
  })
  .transform(({ definition, options }) => ({
    definition,
    options: validate(definition.options, options, `--kind ${definition.name}`),
  }));
const precision = runtimeOptions.precision
  .meta({ whenNull: "fp32" })
  .describe("fp32, bf16 or tf32 (GPU only); in lower precision, more texts are near ties, which are not certified");

export const certifyRequestSchema = z.strictObject({
  model: z.string().describe("a run folder"),
  kind: kindSchema
    .prefault("hash-vote")
    .describe(`certificate with its options: ${[...certificates.keys()].join(", ")}`),
  seed: seedSchema.default(0).describe("random seed of the sample"),
  edits: countSchema.max(100).default(5).describe("largest number of word edits in the table"),
  out: orNull(z.string(), "certificates/ in the run folder").describe("folder of the journal"),
  resume: z.boolean().default(false).describe("continue the journal in the folder, or extend it to more texts"),
  ...dataOptions,
  split: attackRequestSchema.shape.split,
  numExamples: attackRequestSchema.shape.numExamples,
  ...runtimeOptions,
  precision,
});

/**
 * Certifies the predictions of a run: how many texts it classifies correctly, whatever an attacker
 * does within a number of edits. Each text has a line in OUT/KIND.jsonl, and OUT/KIND.json has the
 * result.
 *
 *     const { clean, certified } = await certify({ model: "runs/voting", kind: "hash-vote" });
 *     console.log(clean, certified[0]?.accuracy);
 */
export async function certify(
  request: z.input<typeof certifyRequestSchema>,
  callbacks: Callbacks = {},
): Promise<CertificateReport> {
  const parsed = validate(certifyRequestSchema, request, "certify");
  const { model: reference, kind, edits, seed, split, device, threads } = parsed;
  // In float32, hardly any text is a near tie, which would count against the certificate.
  const precision = parsed.precision ?? "fp32";
  const run = /^https?:/i.test(reference) ? null : await RunFolder.containing(reference);
  await using classifier = await loadClassifier(reference, { device, threads, precision, onEvent: callbacks.onEvent });
  const { model } = classifier;
  const task = await loadRequestedTask(parsed, model, run, callbacks);
  checkLabels(model.reference, model.labels, task.labels, task.name);
  const certificate = await chooseCertificate(kind, edits, run, classifier, task);
  const { options } = certificate;
  const out = parsed.out ?? run?.path("certificates");
  if (out === undefined)
    throw new UserError(`${reference} is not a run, so it has no folder for its certificates. Pass --out FOLDER.`);
  const { examples } = await sampleAttacked(task, parsed);
  const hashes = { model: await hashModelFolder(model.folder), tokenizer: model.tokenizer.hash };
  const createHeader = (count: number): CertificateHeader => ({
    certificate: options,
    hashes: { ...hashes, data: hashExamples(examples.slice(0, count)) },
    settings: { task: task.name, split, precision: classifier.runtime.precision, maxLength: model.maxLength },
    seed,
    examples: count,
  });
  const release = lockCertificateFolder(out);
  try {
    const path = getCertificateJournalPath(out, options.kind);
    const header = createHeader(examples.length);
    const journal = await LineWriter.open(path, certificateFormat, header, parsed.resume, createHeader);
    try {
      const [stage, total] = [`certify ${options.kind}`, examples.length];
      let done = Math.min(journal.count, total);
      if (done < total) reportProgress(callbacks, stage, done, total);
      const stopIfAborted = (): void => {
        if (callbacks.signal?.aborted)
          throw new Interrupted(`Stopped after ${done} of ${total} texts. Every finished text is in the journal.`);
      };
      stopIfAborted();
      const rounds = certifyInRounds(certificate, examples, {
        scoreTexts: classifier.score.bind(classifier),
        from: done,
        onProgress(count) {
          reportProgress(callbacks, stage, count, total);
          if (count < total) stopIfAborted();
        },
      });
      for await (const { start, lines } of rounds) {
        for (const line of lines.slice(done - start)) journal.append(line);
        done = start + lines.length;
      }
    } finally {
      journal.close();
    }
    const report = (await summarizeCertificates(path, kind.definition, task.labels))!;
    await writeCertificateReport(report);
    return report;
  } finally {
    release();
  }
}

export async function chooseCertificate(
  { definition, options }: { readonly definition: CertificateDefinition; readonly options: unknown },
  edits: number,
  run: RunFolder | null,
  { model, runtime }: Pick<TextClassifier, "model" | "runtime">,
  { modifiableFields, fields }: Pick<Task, "modifiableFields" | "fields">,
): Promise<Certificate> {
  const { labels } = model;
  definition.checkModel?.({ normalize: model.normalize ?? "none" });
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

/**
 * The options of the training that a certificate depends on. A run with another training is an
 * error, and `location` says where the certificate was asked for.
 */
export function findTraining(
  { name, trainedBy }: CertificateDefinition,
  run: RunFolder | null,
  reference: string,
  location = `--kind ${name}`,
): object {
  if (trainedBy === undefined) return {};
  const trained = run?.certificate ?? null;
  if (trained?.definition.name === name) return trained.options;
  const found = run
    ? trained
      ? `is a run for --kind ${trained.definition.name}`
      : "was not trained for it"
    : "is not a run";
  throw new UserError(
    `${location}: expected a run that was trained for this certificate, but ${reference} ${found}. ` +
      `Train one: temper train … --method ${trainedBy}`,
  );
}
