import { formatCount, formatNumber, formatPercent } from "../../base/format.js";
import type { ProofSummary } from "../../proofs/index.js";
import { tabulateExact } from "../../runs/exact-folder.js";
import { type Html, html, renderTable } from "../html.js";
import type { ReportRun } from "../report-run.js";

/**
 * Shows the bracket of robust accuracy by the number of substitutions, the distribution of the
 * smallest number that fools the model, and how far each attack is from the exact result.
 */
export function renderExactSection(runs: readonly ReportRun[]): Html | null {
  const parts = runs.flatMap(({ run, exact }) => exact.map((each) => renderExact(run.folder, each)));
  return parts.length > 0 ? html`${parts}` : null;
}

function renderExact(folder: string, report: ProofSummary): Html {
  const { distribution, attacks, examples, task, split, scored } = report;
  const { head, rows } = tabulateExact(report);
  const gapHead = ["attack", "accuracy under attack", "gap", "McNemar p"];
  const gaps = Object.entries(attacks).map(([name, { accuracyUnderAttack, gap, p }]) => [
    name,
    formatPercent(accuracyUnderAttack),
    formatPercent(gap),
    formatNumber(p, 2),
  ]);
  return html`
<h3>${folder}</h3>
<p>${formatCount(examples)} texts of ${task} ${split}; ${formatCount(scored)} candidates scored.
${formatCount(distribution.robust)} texts are proven robust, ${formatCount(distribution.open)} are open.
Robust accuracy is between the two accuracies; they are equal where every text is decided.</p>
${renderTable("Exact accuracy", head, rows)}
${gaps.length > 0 && renderTable("Attacks and the exact result", gapHead, gaps)}`;
}
