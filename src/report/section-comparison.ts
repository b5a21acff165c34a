import { powerLine } from "../evaluation/statistics.js";
import { formatCount, formatShare } from "../format.js";
import { type ComparisonRow, type Difference, type Measured, significance } from "./comparison.js";
import type { TaskGroups } from "./groups.js";
import { type Html, html } from "./html.js";

interface Column {
  readonly name: string;
  readonly note: string;
  of(row: ComparisonRow): Measured | null;
}

/** The methods side by side, with what the differences are worth. */
export function comparisonSection(task: TaskGroups, rows: readonly ComparisonRow[]): Html {
  const { name: baseline } = task.baseline;
  const columns = columnsOf(task, rows).filter(({ of }) => rows.some((row) => of(row) !== null));
  const hasMarks = rows.some((row) => columns.some(({ of }) => of(row)?.difference));
  // The roles are a table's own; said aloud, they outlive the small screen's style, which lays the rows out as blocks.
  return html`
<p class="note">Share of texts classified rightly. Small numbers: 95 % intervals${hasMarks && html`; ▲ better and ▼ worse than ${baseline} (p &lt; ${significance}, corrected for all tests of the table)`}.</p>
<div class="scroll" role="region" aria-label="Comparison on ${task.task}" tabindex="0">
<table class="comparison" role="table">
<caption class="heard">Methods on ${task.task}</caption>
<thead role="rowgroup"><tr role="row"><th scope="col" role="columnheader">Method</th>${columns.map(({ name, note }) => html`<th scope="col" role="columnheader">${name}<small>${note}</small></th>`)}</tr></thead>
<tbody role="rowgroup">${rows.map(
    (row) => html`
<tr role="row"><th scope="row" role="rowheader">${row.group.name}<small>${[row.group.options, seedsOf(row)].filter(Boolean).join("; ")}</small></th>${columns.map((column) => cell(column, row, baseline))}</tr>`,
  )}
</tbody></table></div>
${verdicts(rows, baseline)}`;
}

function columnsOf({ baseline }: TaskGroups, rows: readonly ComparisonRow[]): Column[] {
  const texts = (of: Column["of"]): string => `${formatCount(rows.map(of).find((measured) => measured !== null)?.examples ?? 0)} texts`;
  const attacks = [...new Set(rows.flatMap(({ attacked }) => [...attacked.keys()]))];
  const split = baseline.runs[0]?.results?.report.split ?? "held out";
  return [
    { name: "Accuracy", note: `${split}, ${texts((row) => row.accuracy)}`, of: (row) => row.accuracy },
    { name: "Before attack", note: texts((row) => row.clean), of: (row) => row.clean },
    ...attacks.map((name): Column => ({ name: `Under ${name}`, note: "the same texts", of: (row) => row.attacked.get(name) ?? null })),
    { name: "Worst case", note: "over all attacks", of: (row) => row.worst },
  ];
}

function seedsOf({ group: { runs } }: ComparisonRow): string {
  return runs.length === 1 ? `seed ${runs[0]!.config.seed}` : `${runs.length} seeds`;
}

function cell({ name, of }: Column, row: ComparisonRow, baseline: string): Html {
  const measured = of(row);
  if (!measured) return html`<td role="cell" class="none" data-head="${name}">–<span class="heard"> not measured</span></td>`;
  const { value, interval, spread } = measured;
  const range = interval && `${formatShare(interval.low)} to ${formatShare(interval.high)}`;
  const around = range ?? (spread === null ? "" : `± ${(100 * spread).toFixed(1)} over seeds`);
  const bar = html`<span class="bar" style="--share:${value.toFixed(4)}" aria-hidden="true"></span>`;
  const shown = html`<b>${formatShare(value)}</b>${mark(measured.difference, baseline)}<small>${around}</small>${bar}`;
  return html`<td role="cell" data-head="${name}"><div>${shown}</div></td>`;
}

function mark(difference: Difference | null, baseline: string): Html | null {
  if (!difference || difference.p >= significance) return null;
  const better = difference.value > 0;
  const text = `${better ? "better" : "worse"} than ${baseline}, p ${formatChance(difference.p)}`;
  return html` <span class="${better ? "better" : "worse"}" title="${text}"><span aria-hidden="true">${better ? "▲" : "▼"}</span><span class="heard">${text}</span></span>`;
}

/** What the differences under attack come to, in sentences. */
function verdicts(rows: readonly ComparisonRow[], baseline: string): Html | null {
  const base = rows.find(({ group }) => group.name === baseline);
  const sentences = rows.flatMap((row) =>
    [...row.attacked].flatMap(([name, { value, difference, examples }]) => {
      const other = base?.attacked.get(name);
      return difference && other
        ? [html`<li>${verdict(row.group.name, baseline, name, value, other.value, difference)} ${powerNote(examples, difference)}</li>`]
        : [];
    }),
  );
  return sentences.length > 0 ? html`<ul class="verdicts">${sentences}</ul>` : null;
}

function verdict(method: string, baseline: string, attack: string, value: number, other: number, difference: Difference): string {
  const points = (share: number): string => `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(1)}`;
  const facts = `${points(difference.value)} points, 95 %: ${points(difference.low)} to ${points(difference.high)}, p ${formatChance(difference.p)}, ${difference.test === "McNemar" ? "McNemar's test" : "paired bootstrap over seeds and texts"}`;
  const found =
    difference.p >= significance ? "which chance explains well enough" : difference.value > 0 ? "so it holds better" : "so it holds worse";
  return `Under ${attack}, ${method} is right on ${formatShare(value)} of the texts and ${baseline} on ${formatShare(other)} (${facts}), ${found}.`;
}

/** A difference that was not found may be one that could not be. */
function powerNote(examples: number, { p, discordant }: Difference): string | null {
  if (p < significance) return null;
  const line = powerLine(examples, discordant > 0 ? { discordant } : {});
  return `${line[0]!.toUpperCase()}${line.slice(1)}.`;
}

function formatChance(p: number): string {
  return p < 0.001 ? "< 0.001" : `= ${p.toFixed(p < 0.1 ? 3 : 2)}`;
}
