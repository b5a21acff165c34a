import { readHeader } from "../../base/checked-lines.js";
import { UserError } from "../../base/errors.js";
import { type Callbacks, reportProgress } from "../../base/events.js";
import { describeDifference, type FileVerification, findDifference, namedDataClass } from "../../base/verification.js";
import { hashModelFolder } from "../../models/index.js";
import { checkInRounds, createCertificate, findCertificate, getTieMargin } from "../../proofs/certificates/index.js";
import { type CertificateHeader, certificateFormat, readCertificates } from "../../proofs/index.js";
import { getCertificateReportPath, summarizeCertificates } from "../../runs/certificate-folder.js";
import { hashExamples } from "../../runs/environment.js";
import { RunFolder } from "../../runs/run-folder.js";
import type { RuntimeOptions } from "../../settings/runtime-config.js";
import { findModifiableFields } from "../../tasks/index.js";
import { findTraining } from "../certify.js";
import { loadClassifier, type TextClassifier } from "../predict/text-classifier.js";
import { checkSummary, summaryClass } from "./check-summary.js";

export async function verifyCertificates(
  journal: string,
  reference: string,
  runtime: Pick<RuntimeOptions, "device" | "threads">,
  callbacks: Callbacks,
): Promise<FileVerification> {
  const header = await readHeader(journal, certificateFormat);
  const location = `${journal}:1: certificate`;
  const definition = findCertificate(header.certificate.kind, location);
  const certificate = createCertificate(definition, header.certificate, location);
  const precision = header.settings.precision === "bf16" ? "bf16" : "fp32";
  await using classifier = await loadClassifier(reference, { ...runtime, precision, onEvent: callbacks.onEvent });
  const lines = await readCertificates(journal, certificate);
  if (lines.length !== header.examples)
    throw new UserError(
      `${journal}: it has ${lines.length} of ${header.examples} texts. Continue it with temper certify … --resume.`,
    );
  if (hashExamples(lines) !== header.hashes.data)
    throw new UserError(`${journal}: its texts are not those of its header. Run temper certify again.`);
  const { kind } = certificate.options;
  await checkHeader({ ...header, certificate: certificate.options }, lines[0]!.texts.length, classifier, journal);
  definition.checkModel?.({ normalize: classifier.model.normalize ?? "none" });
  let nearTies = 0;
  for await (const { index, error, isNearTie } of checkInRounds(certificate, lines, {
    scoreTexts: classifier.score.bind(classifier),
    onProgress: (done) => reportProgress(callbacks, `verify ${kind}`, done, lines.length),
  })) {
    if (error !== null) throw new UserError(`${journal}:${index + 2}: ${error}.`);
    nearTies += Number(isNearTie);
  }
  const summary = await summarizeCertificates(journal, definition, classifier.labels);
  const hasSummary = await checkSummary(getCertificateReportPath(journal), summary!, ["journal"]);
  const classes = [
    { count: lines.length - nearTies, what: `${kind} certificates recomputed from model and text`, isVerified: true },
    ...(hasSummary ? [summaryClass] : []),
    { count: nearTies, what: "certificates of near ties, which certify something else here", isVerified: false },
    namedDataClass,
  ];
  return { journal, header, lines: lines.length, classes: classes.filter(({ count }) => count > 0) };
}

/**
 * The header must be that of the model and of its training: with other options, the certificates would be about
 * another model. Only the model knows them, because the lines follow from the header.
 */
async function checkHeader(
  { hashes, certificate, settings }: CertificateHeader,
  numFields: number,
  { model }: TextClassifier,
  journal: string,
): Promise<void> {
  const found = { model: await hashModelFolder(model.folder), tokenizer: model.tokenizer.hash, data: hashes.data };
  const other = findDifference(hashes, [found]);
  if (other)
    throw new UserError(
      `${journal}: it was written with a different ${other.path || "model"} than that of ${model.reference}.`,
    );
  const run = await RunFolder.containing(model.folder);
  const definition = findCertificate(certificate.kind, `${journal}:1`);
  const task = run?.config.task ?? null;
  const allFields = Array.from({ length: numFields }, (_, field) => field);
  const fields = task === null ? null : findModifiableFields(task);
  const expected = {
    maxLength: model.maxLength,
    certificate: {
      ...certificate,
      ...(run && findTraining(definition, run, run.folder, `${journal}:1`)),
      numLabels: model.labels.length,
      // With a smaller one, a certificate would not hold for texts in other batches.
      minMargin: getTieMargin(String(settings.precision)),
    },
  };
  const difference = findDifference(
    { maxLength: settings.maxLength, certificate },
    [allFields, fields ?? allFields].map((editableFields) => ({
      ...expected,
      certificate: { ...expected.certificate, editableFields },
    })),
  );
  if (difference)
    throw new UserError(`${journal}:1: ${describeDifference(difference, model.reference)}. Run temper certify again.`);
}
