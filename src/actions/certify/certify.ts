import { LineWriter } from "../../base/checked-lines.js";
import { UserError } from "../../base/errors.js";
import { reportProgress } from "../../base/events.js";
import { validate } from "../../base/validate.js";
import { describeDegeneratePredictions } from "../../evaluation/degenerate.js";
import { checkLabels, hashModelFolder } from "../../models/index.js";
import { certifyInRounds } from "../../proofs/certificates/index.js";
import { type CertificateHeader, certificateFormat, readCertificates } from "../../proofs/index.js";
import {
  type CertificateReport,
  getCertificateJournalPath,
  lockCertificateFolder,
  writeCertificateReport,
} from "../../runs/certificate-folder.js";
import { hashExamples } from "../../runs/environment.js";
import { RunFolder } from "../../runs/run-folder.js";
import { Interrupted } from "../../train/index.js";
import { sampleAttacked } from "../attack/sample-attacked.js";
import { loadRequestedTask } from "../load/load-task.js";
import { loadClassifier } from "../predict/text-classifier.js";
import { type CertifyCallbacks, type CertifyRequest, certifyRequestSchema } from "./certify-request.js";
import { chooseCertificate } from "./choose-certificate.js";

/**
 * Certifies the predictions of a run: how many texts it classifies correctly, whatever an attacker
 * does within a number of edits. Each text has a line in OUT/KIND.jsonl, and OUT/KIND.json has the
 * result.
 *
 *     const { clean, certified } = await certify({ model: "runs/voting", kind: "hash-vote" });
 *     console.log(clean, certified[0]?.accuracy);
 */
export async function certify(request: CertifyRequest, callbacks: CertifyCallbacks = {}): Promise<CertificateReport> {
  const parsed = validate(certifyRequestSchema, request, "certify");
  const { model: reference, kind, edits, seed, split, device, threads } = parsed;
  // In float32, hardly any text is a near tie, which would count against the certificate.
  const precision = parsed.precision ?? "fp32";
  const run = /^https?:/i.test(reference) ? null : await RunFolder.containing(reference);
  await using classifier = await loadClassifier(reference, { device, threads, precision, onEvent: callbacks.onEvent });
  const { model } = classifier;
  const task = await loadRequestedTask(parsed, model, run, callbacks);
  checkLabels(model.reference, model.labels, task.labels, task.name);
  const certificate = await chooseCertificate({ ...kind, edits }, run, classifier, task);
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
      callbacks.onStart?.(stage, done, total);
      const stopIfAborted = (): void => {
        if (callbacks.signal?.aborted)
          throw new Interrupted(`Stopped after ${done} of ${total} texts. Every finished text is in the journal.`);
      };
      stopIfAborted();
      const rounds = certifyInRounds(certificate, examples, {
        seed,
        scoreTexts: (texts) => classifier.score(texts),
        from: done,
      });
      for await (const { start, lines } of rounds) {
        for (const line of lines.slice(done - start)) journal.append(line);
        done = start + lines.length;
        reportProgress(callbacks, stage, done, total);
        if (done < total) stopIfAborted();
      }
    } finally {
      journal.close();
    }
    const lines = (await readCertificates(path, certificate)).slice(0, examples.length);
    const report: CertificateReport = {
      ...certificate.summarize(lines),
      degeneracy: describeDegeneratePredictions(
        lines.map(({ predicted }) => predicted),
        lines.map(({ label }) => label),
        task.labels,
      ),
      task: task.name,
      split,
      data: hashExamples(examples),
      journal: path,
    };
    await writeCertificateReport(out, report);
    return report;
  } finally {
    release();
  }
}
