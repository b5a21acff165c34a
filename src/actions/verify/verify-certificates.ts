import { readHeader } from "../../base/checked-lines.js";
import { UserError } from "../../base/errors.js";
import { type Callbacks, reportProgress } from "../../base/events.js";
import { hashModelFolder, type Model } from "../../models/index.js";
import { certifyInRounds, createCertificate, findCertificate, getTieMargin } from "../../proofs/certificates/index.js";
import { type CertificateHeader, certificateFormat, readCertificates } from "../../proofs/index.js";
import { hashExamples } from "../../runs/environment.js";
import type { RuntimeOptions } from "../../settings/runtime-config.js";
import { loadClassifier } from "../predict/text-classifier.js";

/** A journal of certificates of which every line was reproduced. */
export interface CertificateVerification {
  readonly journal: string;
  readonly header: CertificateHeader;
  readonly lines: number;
}

/**
 * Computes every certificate of a journal again. A UserError names the first line that is not
 * confirmed.
 */
export async function verifyCertificates(
  journal: string,
  reference: string,
  runtime: Pick<RuntimeOptions, "device" | "threads">,
  callbacks: Callbacks,
): Promise<CertificateVerification> {
  const header = await readHeader(journal, certificateFormat);
  const location = `${journal}:1: certificate`;
  const definition = findCertificate(header.certificate.kind, location);
  const certificate = createCertificate(definition, header.certificate, location);
  const precision = header.settings.precision === "bf16" ? "bf16" : "fp32";
  checkMargin(header, precision, journal);
  await using classifier = await loadClassifier(reference, { ...runtime, precision, onEvent: callbacks.onEvent });
  await checkModel(header, classifier.model, journal);
  definition.checkModel?.({ normalize: classifier.model.normalize ?? "none" });
  const lines = await readCertificates(journal, certificate);
  if (lines.length !== header.examples)
    throw new UserError(
      `${journal}: it has ${lines.length} of ${header.examples} texts. Continue it with temper certify … --resume.`,
    );
  if (hashExamples(lines) !== header.hashes.data)
    throw new UserError(`${journal}: its texts are not those of its header. Run temper certify again.`);
  const rounds = certifyInRounds(certificate, lines, {
    seed: header.seed,
    scoreTexts: classifier.score.bind(classifier),
    onProgress: (done) => reportProgress(callbacks, `verify ${header.certificate.kind}`, done, lines.length),
  });
  for await (const { start, lines: computed } of rounds)
    for (const [i, line] of computed.entries()) {
      const difference = certificate.findDifference(lines[start + i]!, line);
      if (difference !== null) throw new UserError(`${journal}:${start + i + 2}: ${difference}.`);
    }
  return { journal, header, lines: lines.length };
}

/** Without a margin, a certificate would not hold for texts in other batches. */
function checkMargin({ certificate }: CertificateHeader, precision: string, journal: string): void {
  if (certificate.minMargin < getTieMargin(precision))
    throw new UserError(
      `${journal}:1: minMargin is ${certificate.minMargin}, but certificates in ${precision} need at least ` +
        `${getTieMargin(precision)}. Run temper certify again.`,
    );
}

async function checkModel({ hashes, certificate }: CertificateHeader, model: Model, journal: string): Promise<void> {
  const found: Record<string, string> = {
    model: await hashModelFolder(model.folder),
    tokenizer: model.tokenizer.hash,
  };
  for (const [name, hash] of Object.entries(found))
    if (hashes[name] !== hash)
      throw new UserError(`${journal}: it was written with a different ${name} than that of ${model.reference}.`);
  if (certificate.numLabels !== model.labels.length)
    throw new UserError(
      `${journal}:1: numLabels is ${certificate.numLabels}, but ${model.reference} has ${model.labels.length} labels.`,
    );
}
