import { contours } from "d3-contour";
import { getHeatColor } from "./colors.js";
import { type Panel, renderText, roundSvgNumbers } from "./figure.js";
import type { SurfaceGrid } from "./flatness.js";

/** What the colours of all panels of a figure span. */
export interface ValueRange {
  readonly low: number;
  readonly high: number;
}

const formatTick = (value: number): string => String(Number(value.toPrecision(2)));

/** Filled contours of a grid seen from above, with lines at the levels. */
export function renderContourPanel(
  title: string,
  { axis, values }: SurfaceGrid,
  levels: readonly number[],
  span: ValueRange,
): Panel {
  const count = axis.length;
  const [left, top, side, height] = [38, 8, 226, 266];
  // d3-contour puts a value in the middle of its cell: the outer half cells are not data.
  const place = (at: number): number => ((at - 0.5) / (count - 1)) * side;
  const toFraction = (value: number): number => (value - span.low) / (span.high - span.low || 1);
  const shapes = contours()
    .size([count, count])
    .thresholds(levels)(values.flat())
    .map(({ value, coordinates }) => {
      const rings = coordinates
        .flat()
        .map(
          (ring) => `M${ring.map(([x, y]) => `${clamp(place(x), side)},${clamp(side - place(y), side)}`).join("L")}Z`,
        );
      return `<path d="${rings.join("")}" fill="${getHeatColor(toFraction(value))}" stroke="#ffffff" stroke-opacity="0.55" stroke-width="0.7"/>`;
    });
  const end = axis.at(-1)!;
  const ticks = [-end, 0, end].flatMap((value, i) => [
    renderText(
      left + (i * side) / 2,
      top + side + 15,
      formatTick(value),
      10,
      `text-anchor="${["start", "middle", "end"][i]}"`,
    ),
    renderText(left - 5, top + side - (i * side) / 2 + [0, 4, 8][i]!, formatTick(value), 10, 'text-anchor="end"'),
  ]);
  const content = [
    `<rect x="${left}" y="${top}" width="${side}" height="${side}" fill="${getHeatColor(0)}"/>`,
    `<g transform="translate(${left},${top})">${shapes.join("")}`,
    `<path d="M${side / 2 - 4},${side / 2}h8m-4,-4v8" stroke="#ffffff" stroke-width="1.6"/></g>`,
    ...ticks,
    renderText(left + side / 2, top + side + 28, "alpha", 10, 'text-anchor="middle"'),
    renderText(left - 5, top + side / 4, "beta", 10, 'text-anchor="end"'),
  ];
  return { title, width: left + side + 12, height, content: roundSvgNumbers(content.join("")) };
}

/** Rounding may put a point a hair outside. */
function clamp(value: number, most: number): number {
  return Math.min(most, Math.max(0, value));
}

/** Cells a side that are drawn at most: more only make the file larger. */
const maxCells = 26;

/** The same grid as a surface seen from a corner, drawn from the back to the front. */
export function renderSurfacePanel(title: string, { axis, values }: SurfaceGrid, span: ValueRange): Panel {
  const [width, height] = [276, 254];
  const stride = Math.ceil((axis.length - 1) / maxCells);
  const kept = axis.flatMap((_, i) => (i % stride === 0 || i === axis.length - 1 ? [i] : []));
  const toFraction = (value: number): number =>
    Math.min(1, Math.max(0, (value - span.low) / (span.high - span.low || 1)));
  const last = axis.length - 1;
  const at = (column: number, row: number, lift: number): [number, number] => {
    const [x, y] = [column / last - 0.5, row / last - 0.5];
    // Turned by 45 degrees and seen from 30 degrees above: depth is half of width.
    return [width / 2 + 12 + (x - y) * 124, 184 + (x + y) * 62 - lift * 112];
  };
  const corners = (column: number, row: number, nextColumn: number, nextRow: number): [number, number][] =>
    (
      [
        [column, row],
        [nextColumn, row],
        [nextColumn, nextRow],
        [column, nextRow],
      ] as const
    ).map(([c, r]) => at(c, r, toFraction(values[r]![c]!)));
  const cells: string[] = [];
  for (const [i, row] of kept.slice(0, -1).entries()) {
    for (const [j, column] of kept.slice(0, -1).entries()) {
      const [nextRow, nextColumn] = [kept[i + 1]!, kept[j + 1]!];
      const heights = [
        values[row]![column]!,
        values[row]![nextColumn]!,
        values[nextRow]![nextColumn]!,
        values[nextRow]![column]!,
      ].map(toFraction);
      const color = getHeatColor(heights.reduce((sum, value) => sum + value, 0) / 4);
      const points = corners(column, row, nextColumn, nextRow).map((point) =>
        point.map((value) => value.toFixed(1)).join(","),
      );
      cells.push(`<path d="M${points.join("L")}Z" fill="${color}"/>`);
    }
  }
  const floor = (
    [
      [0, 0],
      [last, 0],
      [last, last],
      [0, last],
    ] as const
  ).map(([c, r]) => at(c, r, 0).join(","));
  const [axisX, axisY] = at(0, last, 0);
  const content = [
    `<path d="M${floor.join("L")}Z" fill="currentColor" fill-opacity="0.05" stroke="currentColor" stroke-opacity="0.3"/>`,
    `<path d="M${axisX},${axisY}v-112" stroke="currentColor" stroke-opacity="0.5"/>`,
    renderText(axisX - 4, axisY + 4, formatTick(span.low), 10, 'text-anchor="end"'),
    renderText(axisX - 4, axisY - 108, formatTick(span.high), 10, 'text-anchor="end"'),
    `<g stroke="#0b1020" stroke-opacity="0.35" stroke-width="0.4" stroke-linejoin="round">${cells.join("")}</g>`,
  ];
  return { title, width, height, content: roundSvgNumbers(content.join("")) };
}
