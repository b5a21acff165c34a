import { capitalize, formatCount, formatInterval, formatPercent, formatPValue } from "../../base/format.js";
import { type MetricComparison, significanceLevel } from "../../evaluation/compare.js";
import { getComparisonMark } from "../../evaluation/comparison-mark.js";
import { describeMetric, isAttackMetric } from "../../evaluation/metric-table.js";
import { renderAccuracyChart } from "../accuracy-chart.js";
import type { ComparisonRow } from "../comparison.js";
import type { TaskGroups } from "../groups.js";
import { describeComparison, describeOneSided } from "../headline.js";
import { type Html, html, renderBar } from "../html.js";
import type { ReportRun } from "../report-run.js";

interface Column {
  readonly id: string;
  readonly header: string;
  readonly note: string;
  /** True if all rows have the same number of texts. */
  readonly isCommon: boolean;
}

/**
 * The finding, in at most three sentences, and accuracy before and under attack as a chart.
 * Somebody who knows more about the runs can give the sentences.
 */
export function renderVerdict(
  { baseline }: TaskGroups<ReportRun>,
  rows: readonly ComparisonRow[],
  verdict: string | null = null,
): Html {
  return html`
<p class="verdict">${verdict ?? describeComparison(rows, baseline.name)}</p>
${renderAccuracyChart(rows)}`;
}

/** Shows the models next to each other: every number with the significance of its difference. */
export function renderComparisonSection(task: TaskGroups<ReportRun>, rows: readonly ComparisonRow[]): Html {
  const { name: baseline } = task.baseline;
  const columns = createColumns(rows);
  const hasTests = rows.some(({ metrics }) => [...metrics.values()].some(({ comparison }) => comparison));
  const legend =
    hasTests && ` ▲/▼: significantly better/worse than ${baseline} (Holm-corrected p < ${significanceLevel}).`;
  const headers = columns.map(
    ({ header, note }) => html`<th scope="col" role="columnheader">${header}<small>${note}</small></th>`,
  );
  // The roles repeat those of a table, because small screens show the rows as blocks.
  return html`
<p>${describeOneSided(rows, baseline)}</p>
<p class="note">Accuracy, with the 95% CI below it.${legend}</p>
<div class="scroll" role="region" aria-label="Comparison on ${task.task}" tabindex="0">
<table class="comparison" role="table">
<caption class="sr-only">Methods on ${task.task}</caption>
<thead role="rowgroup"><tr role="row"><th scope="col" role="columnheader">Method</th>${headers}</tr></thead>
<tbody role="rowgroup">${rows.map((row) => renderRow(row, columns, baseline))}
</tbody></table></div>
${renderVerdicts(rows)}`;
}

function createColumns(rows: readonly ComparisonRow[]): Column[] {
  const ids = [...new Set(rows.flatMap(({ metrics }) => [...metrics.keys()]))];
  return ids.map((id) => {
    const found = rows.flatMap(({ metrics }) => metrics.get(id) ?? []);
    const [{ examples, attackedLabel }] = found as [(typeof found)[number]];
    const isCommon = found.every((each) => each.examples === examples);
    const split = id === "accuracy" ? "test split, " : "";
    const { title } = describeMetric(id, attackedLabel);
    const note = `${split}${isCommon ? `${formatCount(examples)} texts` : "different texts"}`;
    return { id, header: capitalize(title), note, isCommon };
  });
}

function renderRow(row: ComparisonRow, columns: readonly Column[], baseline: string): Html {
  const { name, options, runs } = row.group;
  const seeds = runs.length === 1 ? `seed ${runs[0]!.run.config.seed}` : `${runs.length} seeds`;
  const details = [options, seeds].filter(Boolean).join("; ");
  const cells = columns.map((column) => renderCell(column, row, baseline));
  const warning = row.degeneracy && html`<small class="worse">Degenerate: ${row.degeneracy}.</small>`;
  return html`
<tr role="row"><th scope="row" role="rowheader">${name}<small>${details}</small>${warning}</th>${cells}</tr>`;
}

function renderCell({ id, header, isCommon }: Column, { metrics }: ComparisonRow, baseline: string): Html {
  const metric = metrics.get(id);
  if (!metric)
    return html`<td role="cell" class="none" data-head="${header}">–<span class="sr-only"> not measured</span></td>`;
  const { value, interval, std, comparison, examples } = metric;
  const range = interval && formatInterval(interval.low, interval.high);
  const uncertainty = range ?? (std === null ? "" : `± ${(100 * std).toFixed(1)} over seeds`);
  const mark = renderSignificanceMark(comparison, baseline);
  const count = isCommon ? "" : ` of ${formatCount(examples)} texts`;
  const content = html`<b>${formatPercent(value)}</b>${mark}<small>${uncertainty}${count}</small>${
    comparison && html`<small>${formatPoints(comparison)}</small>`
  }${renderBar(value)}`;
  return html`<td role="cell" data-head="${header}"><div>${content}</div></td>`;
}

/** The points that a model has more than the baseline, which is the first one of a comparison. */
function formatPoints({ difference, low, high }: MetricComparison): string {
  const format = (value: number): string => `${value < 0 ? "+" : ""}${(-100 * value).toFixed(1)}`;
  return `${format(difference)} points (${format(high)} to ${format(low)})`.replaceAll("-0.0", "0.0");
}

/**
 * The baseline is the first model of a comparison. A degenerate model has a warning, not a mark.
 */
function renderSignificanceMark(comparison: MetricComparison | null, baseline: string): Html | null {
  const mark = comparison && getComparisonMark(comparison);
  if (!mark) return null;
  const { kind, symbol } = mark;
  const { warning, p } = comparison;
  const text = warning ?? `${kind} than ${baseline}, Holm-corrected p ${formatPValue(p.corrected)}`;
  const content = html`<span aria-hidden="true">${symbol}</span><span class="sr-only">${text}</span>`;
  return html` <span class="${kind}" title="${text}">${content}</span>`;
}

function renderVerdicts(rows: readonly ComparisonRow[]): Html | null {
  const sentences = rows.flatMap(({ metrics }) =>
    [...metrics].flatMap(([id, { comparison }]) =>
      isAttackMetric(id) && comparison ? [html`<li>${capitalize(comparison.verdict)}</li>`] : [],
    ),
  );
  if (sentences.length === 0) return null;
  return html`<details><summary>Every difference in words</summary><ul class="verdicts">${sentences}</ul></details>`;
}
