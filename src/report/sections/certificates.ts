import { formatCount, formatInterval, formatPercent } from "../../base/format.js";
import { formatDegeneracy } from "../../evaluation/degenerate.js";
import { describeEdits, describeGuard } from "../../proofs/certificates/index.js";
import type { CertificateReport } from "../../runs/certificate-folder.js";
import { type Html, html, renderTable } from "../html.js";
import type { ReportRun } from "../report-run.js";

export function renderCertificatesSection(runs: readonly ReportRun[]): Html | null {
  const tables = runs.flatMap(({ run, certificates }) =>
    certificates.map((report) => renderCertificate(run.folder, report)),
  );
  return tables.length > 0 ? html`${tables}` : null;
}

function renderCertificate(folder: string, report: CertificateReport): Html {
  const { kind, clean, cleanInterval, certified, covers, examples, task, split, guard, degeneracy } = report;
  const rows = [
    ["none", formatPercent(clean), formatInterval(cleanInterval.low, cleanInterval.high)],
    ...certified.map((row) => {
      const { low, high } = row.interval;
      return [describeEdits(row), formatPercent(row.accuracy), formatInterval(low, high)];
    }),
  ];
  return html`
<h3>${kind}, ${folder}</h3>
<p>${formatCount(examples)} texts of ${task} ${split}. Covers ${covers}. Every certificate is a proof.
${guard && describeGuard(guard)} ${degeneracy && formatDegeneracy(degeneracy, "certified accuracy")}
The accuracy against the strongest attack is at least the certified one, and at most that under an attack on the same texts.</p>
${renderTable("Certified accuracy by the number of edits", ["edits", "certified accuracy", "95% CI"], rows)}`;
}
