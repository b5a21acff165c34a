import { describeMetric } from "../../evaluation/metric-table.js";
import { describePower } from "../../evaluation/statistics.js";
import { formatCount, formatInterval, formatPercent } from "../../format.js";
import type { BaselineDifference, ComparedMetric, ComparisonRow } from "../comparison.js";
import type { TaskGroups } from "../groups.js";
import { capitalize, type Html, html } from "../html.js";
import type { ReportRun } from "../report-run.js";

interface Column {
  readonly id: string;
  readonly header: string;
  readonly note: string;
}

/** Differences with a smaller p-value are marked. */
const significanceLevel = 0.05;

/** Shows the methods next to each other, with the significance of their differences. */
export function renderComparisonSection(task: TaskGroups<ReportRun>, rows: readonly ComparisonRow[]): Html {
  const { name: baseline } = task.baseline;
  const columns = createColumns(rows);
  const hasTests = rows.some(({ metrics }) => [...metrics.values()].some(({ difference }) => difference));
  const legend =
    hasTests && ` ▲/▼: significantly better/worse than ${baseline} (p < ${significanceLevel}, Holm-corrected).`;
  const headers = columns.map(
    ({ header, note }) => html`<th scope="col" role="columnheader">${header}<small>${note}</small></th>`,
  );
  // The roles repeat those of a table, because small screens show the rows as blocks.
  return html`
<p class="note">Accuracy, with the 95% CI below it.${legend}</p>
<div class="scroll" role="region" aria-label="Comparison on ${task.task}" tabindex="0">
<table class="comparison" role="table">
<caption class="sr-only">Methods on ${task.task}</caption>
<thead role="rowgroup"><tr role="row"><th scope="col" role="columnheader">Method</th>${headers}</tr></thead>
<tbody role="rowgroup">${rows.map((row) => renderRow(row, columns, baseline))}
</tbody></table></div>
${renderVerdicts(rows, baseline)}`;
}

function createColumns(rows: readonly ComparisonRow[]): Column[] {
  const ids = [...new Set(rows.flatMap(({ metrics }) => [...metrics.keys()]))];
  return ids.map((id) => {
    const { examples } = rows.find(({ metrics }) => metrics.has(id))!.metrics.get(id)!;
    const split = id === "accuracy" ? "test split, " : "";
    return { id, header: capitalize(describeMetric(id).title), note: `${split}${formatCount(examples)} texts` };
  });
}

function renderRow(row: ComparisonRow, columns: readonly Column[], baseline: string): Html {
  const { name, options, runs } = row.group;
  const seeds = runs.length === 1 ? `seed ${runs[0]!.run.config.seed}` : `${runs.length} seeds`;
  const details = [options, seeds].filter(Boolean).join("; ");
  const cells = columns.map((column) => renderCell(column, row, baseline));
  return html`
<tr role="row"><th scope="row" role="rowheader">${name}<small>${details}</small></th>${cells}</tr>`;
}

function renderCell({ id, header }: Column, { metrics }: ComparisonRow, baseline: string): Html {
  const metric = metrics.get(id);
  if (!metric)
    return html`<td role="cell" class="none" data-head="${header}">–<span class="sr-only"> not measured</span></td>`;
  const { value, interval, std, difference } = metric;
  const range = interval && formatInterval(interval.low, interval.high);
  const uncertainty = range ?? (std === null ? "" : `± ${(100 * std).toFixed(1)} over seeds`);
  const mark = renderSignificanceMark(difference, baseline);
  const bar = html`<span class="bar" style="--fraction:${value.toFixed(4)}" aria-hidden="true"></span>`;
  const content = html`<b>${formatPercent(value)}</b>${mark}<small>${uncertainty}</small>${bar}`;
  return html`<td role="cell" data-head="${header}"><div>${content}</div></td>`;
}

function renderSignificanceMark(difference: BaselineDifference | null, baseline: string): Html | null {
  if (!difference || difference.p >= significanceLevel) return null;
  const [kind, symbol] = difference.value > 0 ? ["better", "▲"] : ["worse", "▼"];
  const text = `${kind} than ${baseline}, p ${formatPValue(difference.p)}`;
  const content = html`<span aria-hidden="true">${symbol}</span><span class="sr-only">${text}</span>`;
  return html` <span class="${kind}" title="${text}">${content}</span>`;
}

/** Describes the differences under each attack in sentences. */
function renderVerdicts(rows: readonly ComparisonRow[], baseline: string): Html | null {
  const baselineMetrics = rows.find(({ group }) => group.name === baseline)?.metrics;
  const sentences = rows.flatMap(({ group, metrics }) =>
    [...metrics].flatMap(([id, metric]) => {
      const other = baselineMetrics?.get(id);
      const isAttack = !["accuracy", "clean", "worst-case"].includes(id);
      return isAttack && metric.difference && other
        ? [html`<li>${formatVerdict(group.name, baseline, id, metric, metric.difference, other.value)}</li>`]
        : [];
    }),
  );
  return sentences.length > 0 ? html`<ul class="verdicts">${sentences}</ul>` : null;
}

function formatVerdict(
  method: string,
  baseline: string,
  attack: string,
  { value, examples }: ComparedMetric,
  { value: difference, low, high, p, test }: BaselineDifference,
  other: number,
): string {
  const points = (fraction: number): string => `${fraction < 0 ? "−" : "+"}${Math.abs(100 * fraction).toFixed(1)}`;
  const testName = test === "McNemar" ? "McNemar's test" : "paired bootstrap over seeds and texts";
  const interval = `95% CI ${points(low)} to ${points(high)}`;
  const facts = `${points(difference)} points, ${interval}, p ${formatPValue(p)}, ${testName}`;
  const accuracies = `${formatPercent(value)} of the texts correctly and ${baseline} ${formatPercent(other)}`;
  const numbers = `Under ${attack}, ${method} classifies ${accuracies} (${facts})`;
  if (p < significanceLevel) return `${numbers}; ${method} is ${difference > 0 ? "more" : "less"} robust.`;
  // A difference that exists may be too small for this many examples.
  return `${numbers}; the difference is not statistically significant. ${describePower(examples, { accuracy: other })}`;
}

function formatPValue(p: number): string {
  return p < 0.001 ? "< 0.001" : `= ${p.toFixed(p < 0.1 ? 3 : 2)}`;
}
