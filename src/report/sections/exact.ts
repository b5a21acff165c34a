import { formatCount, formatInterval, formatNumber, formatPercent } from "../../base/format.js";
import type { ExactReport } from "../../runs/exact-folder.js";
import { type Html, html } from "../html.js";
import type { ReportRun } from "../report-run.js";

/**
 * Shows the bracket of robust accuracy by the number of substitutions, the distribution of the
 * smallest number that fools the model, and how far each attack is from the exact result.
 */
export function renderExactSection(runs: readonly ReportRun[]): Html | null {
  const parts = runs.flatMap(({ run, exact }) => exact.map((each) => renderExact(run.folder, each)));
  return parts.length > 0 ? html`${parts}` : null;
}

function renderExact(folder: string, report: ExactReport): Html {
  const { bracket, distribution, attacks, examples, task, split, scored } = report;
  const changedLast = bracket.findLastIndex(
    (row, i) => i > 0 && (row.proven !== bracket[i - 1]!.proven || row.unbroken !== bracket[i - 1]!.unbroken),
  );
  const rows = bracket
    .slice(0, Math.max(changedLast, 0) + 1)
    .map((row) => [
      formatCount(row.changes),
      formatPercent(row.proven),
      formatInterval(row.provenInterval.low, row.provenInterval.high),
      formatPercent(row.unbroken),
      formatInterval(row.unbrokenInterval.low, row.unbrokenInterval.high),
      formatCount(distribution.exact[row.changes] ?? 0),
    ]);
  const head = ["Substitutions", "Proven accuracy", "95% CI", "Not broken", "95% CI", "Texts first fooled here"];
  const gaps = Object.entries(attacks).map(([name, { accuracyUnderAttack, gap, p }]) => [
    name,
    formatPercent(accuracyUnderAttack),
    formatPercent(gap),
    formatNumber(p, 2),
  ]);
  return html`
<h3>${folder}</h3><p>${formatCount(examples)} texts of ${task} ${split}; ${formatCount(scored)} candidates scored.
${formatCount(distribution.robust)} texts are proven robust, ${formatCount(distribution.open)} are open. Robust accuracy is
between the two columns; they are equal where every text is decided.</p>
${renderTable("Exact accuracy", head, rows)}
${gaps.length > 0 && renderTable("Attacks and the exact result", ["Attack", "Accuracy under attack", "Gap", "McNemar p"], gaps)}`;
}

function renderTable(title: string, head: readonly string[], rows: readonly (readonly string[])[]): Html {
  return html`<div class="scroll" role="region" aria-label="${title}" tabindex="0"><table>
<caption class="sr-only">${title}</caption>
<thead><tr>${head.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
<tbody>${rows.map(
    ([first, ...others]) => html`<tr><th scope="row">${first}</th>${others.map((cell) => html`<td>${cell}</td>`)}</tr>`,
  )}</tbody></table></div>`;
}
