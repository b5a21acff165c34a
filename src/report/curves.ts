import * as Plot from "@observablehq/plot";
import { getColor } from "../analysis/colors.js";
import { plotPanel } from "../analysis/figure.js";
import { type Html, html, trustHtml } from "./html.js";

/** Points of a line on a chart. */
export interface Series {
  readonly name: string;
  /** The place of its colour in the palette. */
  readonly color: number;
  readonly points: readonly { readonly step: number; readonly value: number }[];
  /** Marks every point, for values that were measured now and then. */
  readonly dots?: boolean;
}

export interface ChartOptions {
  readonly title: string;
  /** What the vertical axis shows. */
  readonly label: string;
  /** Shares are shown as percentages. */
  readonly percent?: boolean;
}

/** More points than this a chart cannot show. */
const maxPoints = 240;

/** A line chart over training steps. */
export function renderLineChart(
  series: readonly Series[],
  { title, label, percent: asPercent = false }: ChartOptions,
): Html {
  const drawn = series.map((one) => ({ ...one, points: downsample(one.points) }));
  const at = { x: "step", y: "value" };
  const { content } = plotPanel(title, {
    width: 480,
    height: 240,
    x: { label: "step", zero: true },
    y: { label, grid: true, nice: true, ...(asPercent ? { percent: true } : {}) },
    marks: drawn.flatMap(({ points, color, dots }) => {
      const stroke = getColor(color);
      return [
        Plot.lineY(points, { ...at, stroke, strokeWidth: 2 }),
        ...(dots ? [Plot.dot(points, { ...at, fill: stroke, r: 3 })] : []),
      ];
    }),
  });
  const heard = html`<span class="heard">: ${drawn.map(describeSeries).join("; ")}</span>`;
  // Names inside the drawing are text nodes, which the drawing's own writer escapes.
  const picture = html`<div aria-hidden="true">${trustHtml(content)}</div>`;
  return html`<figure class="chart"><figcaption>${title}${heard}</figcaption>${picture}</figure>`;
}

/** Means of neighbours, where there are more points than the chart is wide. */
function downsample(points: Series["points"]): Series["points"] {
  const size = Math.ceil(points.length / maxPoints);
  if (size <= 1) return points;
  return Array.from({ length: Math.ceil(points.length / size) }, (_, i) => {
    const some = points.slice(i * size, (i + 1) * size);
    return { step: some.at(-1)!.step, value: some.reduce((sum, { value }) => sum + value, 0) / some.length };
  });
}

/** A line in words, for those who cannot see it. */
function describeSeries({ name, points }: Series): string {
  const [first, last] = [points[0]!, points.at(-1)!];
  return `${name} from ${first.value.toPrecision(3)} to ${last.value.toPrecision(3)} at step ${last.step}`;
}
