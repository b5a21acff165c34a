import { findLineFiles } from "../base/checked-lines.js";
import { formatCount, formatInterval, formatPercent } from "../base/format.js";
import { writeJson } from "../base/read-json.js";
import { type ProofDetails, type ProofSummary, proofFormat, summarizeProof } from "../proofs/index.js";

/**
 * Exact robust accuracy by number of substitutions.
 *
 *     const { exact: levels }: ExactReport = await exact({ model: "runs/rose", maxChanges: 2 });
 */
export interface ExactReport extends ProofSummary, ProofDetails {
  /** Texts per second of this call; null if the proof was complete. */
  readonly textsPerSecond: number | null;
}

/** PROOF.report.json: the result of `exact`, beside its proof. It is written for other programs and never read. */
export function getExactReportPath(proof: string): string {
  return proof.replace(/\.jsonl$/, ".report.json");
}

export async function writeExactReport(report: ExactReport): Promise<void> {
  await writeJson(getExactReportPath(report.proof), report);
}

export function findProofs(folder: string): Promise<string[]> {
  return findLineFiles(folder, proofFormat);
}

export async function summarizeProofs(folder: string): Promise<ProofSummary[]> {
  const found = await Promise.all((await findProofs(folder)).map(summarizeProof));
  return found.filter((each) => each !== null);
}

export function tabulateExact({ bracket, distribution, exact }: ProofSummary): { head: string[]; rows: string[][] } {
  const rows = bracket.map(({ changes, proven, provenInterval, unbroken, unbrokenInterval }) => [
    formatCount(changes),
    formatCount(distribution.exact[changes] ?? 0),
    formatPercent(proven),
    formatInterval(provenInterval.low, provenInterval.high),
    formatPercent(unbroken),
    formatInterval(unbrokenInterval.low, unbrokenInterval.high),
    formatCount(exact[changes]!.open),
  ]);
  return { head: ["substitutions", "first fooled", "exact accuracy", "95% CI", "not broken", "95% CI", "open"], rows };
}
