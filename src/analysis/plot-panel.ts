import * as Plot from "@observablehq/plot";
import { parseHTML } from "linkedom";
import { type Panel, roundSvgNumbers, sizes } from "./figure.js";

// Draws panels. Figures load this on demand, because it takes longer than starting most commands.
export { Plot };

export function plotPanel(title: string, options: Plot.PlotOptions): Panel {
  const { width = 340, height = 250 } = options;
  const { document: page } = parseHTML("<html><body></body></html>");
  // Plot's own format repeats the zeros of a tiny tick step: 75.750000.
  const formatTicks = (axis: Plot.ScaleOptions | undefined): Plot.ScaleOptions => ({
    tickFormat: (value: unknown) => (typeof value === "number" ? formatTick(value) : String(value)),
    ...axis,
  });
  const margins = { marginTop: 24, marginRight: 16, marginBottom: 38, marginLeft: 52 };
  const plot = Plot.plot({
    ...margins,
    ...options,
    x: formatTicks(options.x),
    y: formatTicks(options.y),
    width,
    height,
    document: page as unknown as NonNullable<Plot.PlotOptions["document"]>,
    style: { fontSize: "11px" },
  });
  // Plot's stylesheet needs a page, and its variables need a browser.
  plot.querySelector("style")?.remove();
  plot.removeAttribute("style");
  plot.setAttribute("font-size", String(sizes.text));
  plot.removeAttribute("font-family");
  return { title, width, height, content: roundSvgNumbers(plot.outerHTML) };
}

/** Formats the number at a tick: six digits without trailing zeros, and separators of thousands. */
export function formatTick(value: number): string {
  return Number(value.toPrecision(6)).toLocaleString("en-US", { maximumFractionDigits: 12 });
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface BandPoint extends Point {
  readonly low: number;
  readonly high: number;
}

/** The mean over the seeds at each shared position, in a band from the lowest to the highest. */
export function joinSeeds(curves: readonly (readonly Point[])[]): readonly BandPoint[] {
  const [first = [], ...others] = curves.map((curve) => new Map(curve.map(({ x, y }) => [x, y])));
  return [...first].flatMap(([x, y]) => {
    const values = [y, ...others.flatMap((other) => other.get(x) ?? [])];
    if (values.length < curves.length) return [];
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    return [{ x, y: mean, low: Math.min(...values), high: Math.max(...values) }];
  });
}

/** Averages neighboring points if there are more than a line can show. */
export function downsample(points: readonly Point[], maxPoints = 240): readonly Point[] {
  const size = Math.ceil(points.length / maxPoints);
  if (size <= 1) return points;
  return Array.from({ length: Math.ceil(points.length / size) }, (_, i) => {
    const neighbors = points.slice(i * size, (i + 1) * size);
    const y = neighbors.reduce((sum, point) => sum + point.y, 0) / neighbors.length;
    return { x: neighbors.at(-1)!.x, y };
  });
}

export function drawLine(
  points: readonly BandPoint[],
  {
    color,
    r = 0,
    isConnected = true,
  }: {
    readonly color: string;
    /** The radius of a dot at each point. Default: no dots. */
    readonly r?: number;
    readonly isConnected?: boolean;
  },
): Plot.Markish[] {
  const channels = { x: "x", y: "y" };
  const line = Plot.line(points, { ...channels, stroke: color, strokeWidth: 2 });
  const band = Plot.areaY(points, { x: "x", y1: "low", y2: "high", fill: color, fillOpacity: 0.18 });
  return [
    ...(points.some(({ low, high }) => low < high) ? [band] : []),
    ...(isConnected ? [line] : []),
    ...(r > 0 ? [Plot.dot(points, { ...channels, fill: color, r })] : []),
  ];
}
