import { join } from "node:path";
import { z } from "zod";
import { lockFolder } from "../base/lock.js";
import { readJsonFiles, writeJson } from "../base/read-json.js";
import { certificateSummarySchema } from "../proofs/certificates/index.js";

/** KIND.json: what `certify` found, beside its journal KIND.jsonl. */
export const certificateReportSchema = certificateSummarySchema.extend({
  /** The reason why the model is degenerate, so that no number counts; null if it is not. */
  degeneracy: z.string().nullable().default(null),
  task: z.string(),
  split: z.string(),
  /** SHA-256 of the texts. */
  data: z.string(),
  journal: z.string(),
});

/**
 * Certified accuracy of a model by the number of edits.
 *
 *     const { clean, certified }: CertificateReport = await certify({ model: "runs/voting" });
 */
export type CertificateReport = Readonly<z.output<typeof certificateReportSchema>>;

export function getCertificateJournalPath(folder: string, kind: string): string {
  return join(folder, `${kind}.jsonl`);
}

export async function writeCertificateReport(folder: string, report: CertificateReport): Promise<void> {
  await writeJson(join(folder, `${report.kind}.json`), report);
}

/** Reads what `certify` found, by kind in the order of their names. */
export async function readCertificateReports(folder: string): Promise<CertificateReport[]> {
  return readJsonFiles(folder, ".json", certificateReportSchema, "certificates");
}

/** Creates a folder for certificates and keeps other processes out until the returned function is called. */
export function lockCertificateFolder(folder: string): () => void {
  return lockFolder(folder, "certify.lock", "create the folder of the certificates");
}
