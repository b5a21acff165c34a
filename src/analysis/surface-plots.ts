import * as Plot from "@observablehq/plot";
import { getHeatColor } from "./colors.js";
import type { Panel } from "./figure.js";
import { plotPanel } from "./plot-panel.js";

/** A square grid of values: one row per value of beta, one column per value of alpha, both at `axis`. */
export interface SurfaceGrid {
  readonly axis: readonly number[];
  readonly values: readonly (readonly number[])[];
}

interface ValueRange {
  readonly low: number;
  readonly high: number;
}

const formatTick = (value: number): string => String(Number(value.toPrecision(2)));

export function renderContourPanel(
  title: string,
  { axis, values }: SurfaceGrid,
  levels: readonly number[],
  { low, high }: ValueRange,
): Panel {
  const count = axis.length;
  const end = axis.at(-1)!;
  // Plot places a value in the middle of its cell. The outer half of the border cells is no data.
  const edge = end + end / (count - 1);
  const scale = { domain: [-end, end], ticks: [-end, 0, end], tickFormat: formatTick, tickSize: 0 };
  const label = { labelAnchor: "center", labelArrow: "none" } as const;
  return plotPanel(title, {
    width: 292,
    height: 270,
    marginTop: 8,
    x: { ...scale, ...label, label: "alpha" },
    y: { ...scale, ...label, label: "beta" },
    color: { type: "linear", domain: [low, high], clamp: true, interpolate: getHeatColor },
    marks: [
      Plot.contour(values.flat(), {
        width: count,
        height: count,
        x1: -edge,
        x2: edge,
        y1: -edge,
        y2: edge,
        clip: true,
        fill: Plot.identity,
        thresholds: [low, ...levels],
        stroke: "#ffffff",
        strokeOpacity: 0.55,
        strokeWidth: 0.7,
      }),
      Plot.dot([[0, 0]], { symbol: "plus", r: 4, stroke: "#ffffff" }),
    ],
  });
}

/** Maximum number of cells per side. More cells only make the file larger. */
const maxCells = 26;

/** Renders a grid as a surface seen from a corner, from back to front. */
export function renderSurfacePanel(title: string, { axis, values }: SurfaceGrid, { low, high }: ValueRange): Panel {
  const last = axis.length - 1;
  const stride = Math.ceil(last / maxCells);
  const kept = [...axis.keys()].filter((i) => i % stride === 0 || i === last);
  const getLift = (column: number, row: number): number =>
    Math.min(1, Math.max(0, (values[row]![column]! - low) / (high - low || 1)));
  // Rotated by 45 degrees and seen from 30 degrees above, so depth is half of width.
  const project = (column: number, row: number, lift = 0): [number, number] => [
    (column - row) / last,
    0.9 * lift - (column + row) / (2 * last),
  ];
  const cells = kept.slice(1).flatMap((row, i) =>
    kept.slice(1).flatMap((column, j) => {
      const [left, above] = [kept[j]!, kept[i]!];
      const corners: [number, number][] = [[left, above], [column, above], [column, row], [left, row]]; // biome-ignore format: one line
      const lifts = corners.map(([x, y]) => getLift(x, y));
      const color = getHeatColor(lifts.reduce((sum, lift) => sum + lift) / 4);
      return corners.map(([x, y], k) => ({ point: project(x, y, lifts[k]), cell: `${i} ${j}`, color }));
    }),
  );
  const floor = [project(0, 0), project(last, 0), project(last, last), project(0, last)];
  const ends = [project(0, last), project(0, last, 1)];
  const outline = { stroke: "#0b1020", strokeOpacity: 0.35, strokeWidth: 0.4 };
  return plotPanel(title, {
    width: 292,
    height: 250,
    x: { axis: null, domain: [-1, 1] },
    y: { axis: null, domain: [-1, 0.9] },
    marks: [
      Plot.line(floor, { curve: "linear-closed", fill: "currentColor", fillOpacity: 0.05, strokeOpacity: 0.3 }),
      Plot.line(ends, { strokeOpacity: 0.5, strokeWidth: 1 }),
      Plot.text(ends, { text: [low, high].map(formatTick), textAnchor: "end", dx: -4 }),
      Plot.line(cells, {
        x: ({ point }) => point[0],
        y: ({ point }) => point[1],
        z: "cell",
        curve: "linear-closed",
        fill: "color",
        ...outline,
      }),
    ],
  });
}

export function renderColorScale(title: string, { low, high }: ValueRange): Panel {
  const fractions = Array.from({ length: 46 }, (_, i) => i / 46);
  return plotPanel(title, {
    width: 292,
    height: 36,
    marginTop: 4,
    marginBottom: 20,
    x: { label: null, ticks: [0, 0.5, 1], tickFormat: (at: number) => formatTick(low + at * (high - low)) },
    y: { axis: null },
    marks: [
      Plot.barX(fractions, {
        x1: (at) => at,
        x2: (at) => at + 1 / 46,
        insetRight: -0.5,
        fill: (at) => getHeatColor(at),
      }),
    ],
  });
}
