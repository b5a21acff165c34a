import { assignColors } from "../analysis/colors.js";
import { renderFigure } from "../analysis/figure.js";
import { capitalize, formatCount, formatPercent } from "../base/format.js";
import { describeMetric, isAttackMetric } from "../evaluation/metric-table.js";
import { worstCaseId } from "../evaluation/worst-case.js";
import type { ComparedMetric, ComparisonRow } from "./comparison.js";
import { type Html, html, renderLegend } from "./html.js";

/** The fraction of the width that stands for 100%. The rest is for the numbers beside the bars. */
const scale = 0.86;
const rowHeight = 52;
/** The bars are pale before the attack and solid under attack. */
const bars = {
  before: { y: 17, height: 9, opacity: 0.35, weight: 400 },
  under: { y: 28, height: 12, opacity: 1, weight: 600 },
} as const;

interface ChartPanel {
  readonly title: string;
  readonly rows: readonly {
    readonly name: string;
    readonly color: string;
    readonly before: ComparedMetric;
    readonly under: ComparedMetric;
  }[];
}

/** The metric that a report is about: the worst case of several attacks, or the only attack. */
export function selectMainMetric(rows: readonly ComparisonRow[]): string | null {
  const ids = rows.flatMap(({ metrics }) => [...metrics.keys()]);
  return ids.includes(worstCaseId) ? worstCaseId : (ids.find(isAttackMetric) ?? null);
}

function createPanels(rows: readonly ComparisonRow[]): ChartPanel[] {
  const colors = assignColors(
    rows.map(({ group }) => ({ method: group.runs[0]?.run.method ?? "", label: group.name })),
  );
  const ids = [...new Set(rows.flatMap(({ metrics }) => [...metrics.keys()]))];
  const attacks = ids.filter((id) => isAttackMetric(id) || id === worstCaseId);
  const main = selectMainMetric(rows);
  return attacks
    .sort((a, b) => Number(b === main) - Number(a === main))
    .map((id) => {
      const measured = rows.flatMap(({ group, metrics }, i) => {
        const [before, under] = [metrics.get("clean"), metrics.get(id)];
        return before && under ? [{ name: group.name, color: colors[i]!, before, under }] : [];
      });
      const { title } = describeMetric(id, measured[0]?.under.attackedLabel ?? null);
      const counts = [...new Set(measured.map(({ under }) => formatCount(under.examples)))].join(" and ");
      return { title: `${capitalize(title)}, ${counts} texts`, rows: measured };
    })
    .filter((panel) => panel.rows.length > 0);
}

/** Places are percentages, so that the chart fills any width while its text keeps its size. */
function place(fraction: number): string {
  return `${(100 * scale * fraction).toFixed(2)}%`;
}

function renderLine(x1: number, x2: number, y1: number, y2: number, width: number, opacity = 1): Html {
  return html`
<line x1="${place(x1)}" x2="${place(x2)}" y1="${y1}" y2="${y2}"
stroke="currentColor" stroke-width="${width}" stroke-opacity="${opacity}"/>`;
}

function renderBar(kind: keyof typeof bars, { value, interval }: ComparedMetric, color: string, top: number): Html {
  const { y, height, opacity, weight } = bars[kind];
  const middle = top + y + height / 2;
  const { low, high } = interval ?? { low: value, high: value };
  return html`
<rect x="0" y="${top + y}" width="${place(value)}" height="${height}" fill="${color}" fill-opacity="${opacity}"/>
${renderLine(low, high, middle, middle, 1.5)}
${[low, high].map((end) => renderLine(end, end, middle - 3, middle + 3, 1.5))}
<text x="${place(high)}" dx="6" y="${middle + 4}" font-size="11" font-weight="${weight}">${formatPercent(value)}</text>`;
}

/** Renders the bars of one attack. Without a width, they fill the space that the page gives them. */
function renderPanel({ rows }: ChartPanel, width: number | "100%"): Html {
  const height = rows.length * rowHeight + 14;
  const ticks = [0, 0.25, 0.5, 0.75, 1].map(
    (tick) => html`
${renderLine(tick, tick, 0, height - 14, 1, 0.15)}
<text x="${place(tick)}" y="${height - 2}" font-size="10" fill-opacity="0.75"
text-anchor="${tick === 0 ? "start" : "middle"}">${formatPercent(tick, 0)}</text>`,
  );
  const pairs = rows.map(({ name, color, before, under }, i) => {
    const top = i * rowHeight;
    return html`
<text x="0" y="${top + 12}" font-size="12" font-weight="600">${name}</text>
${renderBar("before", before, color, top)}${renderBar("under", under, color, top)}`;
  });
  return html`
<svg class="accuracy" width="${width}" height="${height}" fill="currentColor" overflow="visible">
${ticks}${pairs}</svg>`;
}

const legend = [
  { label: "before the attack", color: "#b6bcc4", shape: "square" },
  { label: "under attack", color: "#6b7682", shape: "square" },
] as const;
const note = "Lines are 95% CIs. Both bars of a model are over the same texts.";

export function renderAccuracyChart(rows: readonly ComparisonRow[]): Html | null {
  const panels = createPanels(rows);
  if (panels.length === 0) return null;
  const charts = panels.map((panel) => {
    const words = panel.rows.map(
      ({ name, before, under }) =>
        `${name} ${formatPercent(before.value)} before and ${formatPercent(under.value)} after`,
    );
    return html`
<figure class="chart"><figcaption><b>${panel.title}</b><span class="sr-only">: ${words.join("; ")}</span></figcaption>
<div aria-hidden="true">${renderPanel(panel, "100%")}</div></figure>`;
  });
  return html`${renderLegend(legend)}<div class="accuracies">${charts}</div><p class="note">${note}</p>`;
}

/** The same chart as an SVG file of its own. */
export function renderAccuracyFigure(rows: readonly ComparisonRow[], title: string, caption: string): string {
  const width = 620;
  const panels = createPanels(rows).map((panel) => ({
    title: panel.title,
    width,
    height: panel.rows.length * rowHeight + 16,
    content: renderPanel(panel, width).text,
  }));
  return renderFigure({ title, caption: `${caption} ${note}`, legend, panels, columns: 1 });
}
