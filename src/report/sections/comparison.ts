import { describePower } from "../../evaluation/statistics.js";
import { formatCount, formatPercent } from "../../format.js";
import {
  type BaselineDifference,
  beforeAttackMetric,
  type ComparedMetric,
  type ComparisonRow,
  reportedMetric,
  significanceLevel,
  worstCaseMetric,
} from "../comparison.js";
import type { TaskGroups } from "../groups.js";
import { type Html, html } from "../html.js";

interface ComparisonColumn {
  /** The measure it shows. */
  readonly measure: string;
  readonly header: string;
  readonly note: string;
}

/** The methods side by side, with what the differences are worth. */
export function renderComparisonSection(task: TaskGroups, rows: readonly ComparisonRow[]): Html {
  const { name: baseline } = task.baseline;
  const columns = createColumns(task, rows);
  const hasMarks = rows.some(({ measures }) => [...measures.values()].some(({ difference }) => difference));
  // The roles are a table's own; said aloud, they outlive the small screen's style, which lays the rows out as blocks.
  return html`
<p class="note">Share of texts classified rightly. Small numbers: 95 % intervals${hasMarks && html`; ▲ better and ▼ worse than ${baseline} (p &lt; ${significanceLevel}, corrected for all tests of the table)`}.</p>
<div class="scroll" role="region" aria-label="Comparison on ${task.task}" tabindex="0">
<table class="comparison" role="table">
<caption class="heard">Methods on ${task.task}</caption>
<thead role="rowgroup"><tr role="row"><th scope="col" role="columnheader">Method</th>${columns.map(({ header: head, note }) => html`<th scope="col" role="columnheader">${head}<small>${note}</small></th>`)}</tr></thead>
<tbody role="rowgroup">${rows.map(
    (row) => html`
<tr role="row"><th scope="row" role="rowheader">${row.group.name}<small>${[row.group.options, formatSeeds(row)].filter(Boolean).join("; ")}</small></th>${columns.map((column) => renderCell(column, row, baseline))}</tr>`,
  )}
</tbody></table></div>
${renderVerdicts(rows, baseline)}`;
}

function createColumns({ baseline }: TaskGroups, rows: readonly ComparisonRow[]): ComparisonColumn[] {
  const names = [...new Set(rows.flatMap(({ measures }) => [...measures.keys()]))];
  const texts = (name: string): string =>
    `${formatCount(rows.find(({ measures }) => measures.has(name))!.measures.get(name)!.examples)} texts`;
  const split = baseline.runs[0]?.results?.test.split ?? "held out";
  const known: Readonly<Record<string, (name: string) => Omit<ComparisonColumn, "measure">>> = {
    [reportedMetric]: (name) => ({ header: "Accuracy", note: `${split}, ${texts(name)}` }),
    [beforeAttackMetric]: (name) => ({ header: "Before attack", note: texts(name) }),
    [worstCaseMetric]: () => ({ header: "Worst case", note: "over all attacks" }),
  };
  return names.map((measure) => ({
    measure,
    ...(known[measure]?.(measure) ?? { header: `Under ${measure}`, note: "the same texts" }),
  }));
}

function formatSeeds({ group: { runs } }: ComparisonRow): string {
  return runs.length === 1 ? `seed ${runs[0]!.config.seed}` : `${runs.length} seeds`;
}

function renderCell({ measure, header: head }: ComparisonColumn, { measures }: ComparisonRow, baseline: string): Html {
  const measured = measures.get(measure);
  if (!measured)
    return html`<td role="cell" class="none" data-head="${head}">–<span class="heard"> not measured</span></td>`;
  const { value, interval, std: spread } = measured;
  const range = interval && `${formatPercent(interval.low)} to ${formatPercent(interval.high)}`;
  const around = range ?? (spread === null ? "" : `± ${(100 * spread).toFixed(1)} over seeds`);
  const bar = html`<span class="bar" style="--share:${value.toFixed(4)}" aria-hidden="true"></span>`;
  const shown = html`<b>${formatPercent(value)}</b>${renderSignificanceMark(measured.difference, baseline)}<small>${around}</small>${bar}`;
  return html`<td role="cell" data-head="${head}"><div>${shown}</div></td>`;
}

function renderSignificanceMark(difference: BaselineDifference | null, baseline: string): Html | null {
  if (!difference || difference.p >= significanceLevel) return null;
  const better = difference.value > 0;
  const text = `${better ? "better" : "worse"} than ${baseline}, p ${formatPValue(difference.p)}`;
  return html` <span class="${better ? "better" : "worse"}" title="${text}"><span aria-hidden="true">${better ? "▲" : "▼"}</span><span class="heard">${text}</span></span>`;
}

/** What the differences under attack come to, in sentences. */
function renderVerdicts(rows: readonly ComparisonRow[], baseline: string): Html | null {
  const base = rows.find(({ group }) => group.name === baseline)?.measures;
  const sentences = rows.flatMap(({ group, measures }) =>
    [...measures].flatMap(([name, measured]) => {
      const other = base?.get(name);
      const isAttack = ![reportedMetric, beforeAttackMetric, worstCaseMetric].includes(name);
      return isAttack && measured.difference && other
        ? [html`<li>${formatVerdict(group.name, baseline, name, measured, other.value)}</li>`]
        : [];
    }),
  );
  return sentences.length > 0 ? html`<ul class="verdicts">${sentences}</ul>` : null;
}

function formatVerdict(
  method: string,
  baseline: string,
  attack: string,
  { value, examples, difference }: ComparedMetric,
  other: number,
): string {
  const { value: lead, low, high, p, test } = difference!;
  const points = (fraction: number): string => `${fraction < 0 ? "−" : "+"}${Math.abs(100 * fraction).toFixed(1)}`;
  const name = test === "McNemar" ? "McNemar's test" : "paired bootstrap over seeds and texts";
  const facts = `${points(lead)} points, 95 %: ${points(low)} to ${points(high)}, p ${formatPValue(p)}, ${name}`;
  const numbers = `Under ${attack}, ${method} is right on ${formatPercent(value)} of the texts and ${baseline} on ${formatPercent(other)} (${facts})`;
  if (p < significanceLevel) return `${numbers}, so it holds ${lead > 0 ? "better" : "worse"}.`;
  // A difference that was not found may be one that could not be.
  return `${numbers}, which chance explains well enough. ${describePower(examples, { accuracy: other })}`;
}

function formatPValue(p: number): string {
  return p < 0.001 ? "< 0.001" : `= ${p.toFixed(p < 0.1 ? 3 : 2)}`;
}
