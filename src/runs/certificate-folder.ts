import { join } from "node:path";
import { z } from "zod";
import { findLineFiles, readHeader } from "../base/checked-lines.js";
import { lockFolder } from "../base/lock.js";
import { writeJson } from "../base/read-json.js";
import { validate } from "../base/validate.js";
import { describeDegeneratePredictions } from "../evaluation/degenerate.js";
import {
  type CertificateDefinition,
  type CertificateSummary,
  certificates,
  createCertificate,
} from "../proofs/certificates/index.js";
import { certificateFormat, readCertificates } from "../proofs/index.js";

/**
 * Certified accuracy of a model by the number of edits.
 *
 *     const { clean, certified }: CertificateReport = await certify({ model: "runs/voting" });
 */
export interface CertificateReport extends CertificateSummary {
  /** The reason why the model is degenerate, so that no number counts; null if it is not. */
  readonly degeneracy: string | null;
  readonly task: string;
  readonly split: string;
  readonly data: string;
  readonly journal: string;
}

export function getCertificateJournalPath(folder: string, kind: string): string {
  return join(folder, `${kind}.jsonl`);
}

/** KIND.json: the result of `certify`, beside its journal KIND.jsonl. It is written for other programs and never read. */
export function getCertificateReportPath(journal: string): string {
  return journal.replace(/\.jsonl$/, ".json");
}

export async function writeCertificateReport(report: CertificateReport): Promise<void> {
  await writeJson(getCertificateReportPath(report.journal), report);
}

const sampleSchema = z.looseObject({ task: z.string(), split: z.string() });

export async function summarizeCertificates(
  journal: string,
  definition: CertificateDefinition,
  labels: readonly string[],
): Promise<CertificateReport | null> {
  const header = await readHeader(journal, certificateFormat);
  const certificate = createCertificate(definition, header.certificate, `${journal}:1: certificate`);
  const { task, split } = validate(sampleSchema, header.settings, `${journal}:1: settings`);
  const lines = await readCertificates(journal, certificate);
  if (lines.length !== header.examples) return null;
  const predicted = lines.map((line) => line.predicted);
  const gold = lines.map(({ label }) => label);
  const names = Array.from({ length: certificate.options.numLabels }, (_, i) => labels[i] ?? `label ${i}`);
  return {
    ...certificate.summarize(lines),
    degeneracy: describeDegeneratePredictions(predicted, gold, names),
    task,
    split,
    data: header.hashes.data!,
    journal,
  };
}

export function findCertificateJournals(folder: string): Promise<string[]> {
  return findLineFiles(folder, certificateFormat);
}

/**
 * Summarizes the journals of a folder. Those of certificates that are not built in are left out,
 * because only their own code can read them.
 */
export async function readCertificateReports(folder: string, labels: readonly string[]): Promise<CertificateReport[]> {
  const found: CertificateReport[] = [];
  for (const journal of await findCertificateJournals(folder)) {
    const { certificate } = await readHeader(journal, certificateFormat);
    const definition = certificates.get(certificate.kind);
    const report = definition && (await summarizeCertificates(journal, definition, labels));
    if (report) found.push(report);
  }
  return found;
}

export function lockCertificateFolder(folder: string): () => void {
  return lockFolder(folder, "certify.lock", "create the folder of the certificates");
}
