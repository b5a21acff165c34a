import { contours } from "d3-contour";
import { getHeatColor } from "./colors.js";
import { type Panel, renderText, roundSvgNumbers } from "./figure.js";

/**
 * A square grid of values. Rows are positions on the second axis, columns on the first, both at
 * `axis`.
 */
export interface SurfaceGrid {
  readonly axis: readonly number[];
  readonly values: readonly (readonly number[])[];
}

/** The values that the colors of all panels of a figure cover. */
export interface ValueRange {
  readonly low: number;
  readonly high: number;
}

const formatTick = (value: number): string => String(Number(value.toPrecision(2)));

/** Renders filled contours of a grid, with lines at the levels. */
export function renderContourPanel(
  title: string,
  { axis, values }: SurfaceGrid,
  levels: readonly number[],
  span: ValueRange,
): Panel {
  const count = axis.length;
  const [left, top, side, height] = [38, 8, 226, 266];
  // d3-contour places a value in the middle of its cell. The outer half of the border cells is not
  // data.
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
      const line = 'stroke="#ffffff" stroke-opacity="0.55" stroke-width="0.7"';
      return `<path d="${rings.join("")}" fill="${getHeatColor(toFraction(value))}" ${line}/>`;
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

/** Rounding may place a point slightly outside. */
function clamp(value: number, max: number): number {
  return Math.min(max, Math.max(0, value));
}

/** Maximum number of cells per side. More cells only make the file larger. */
const maxCells = 26;

/** Renders a grid as a surface seen from a corner, from back to front. */
export function renderSurfacePanel(title: string, { axis, values }: SurfaceGrid, span: ValueRange): Panel {
  const [width, height] = [276, 254];
  const stride = Math.ceil((axis.length - 1) / maxCells);
  const kept = axis.flatMap((_, i) => (i % stride === 0 || i === axis.length - 1 ? [i] : []));
  const toFraction = (value: number): number =>
    Math.min(1, Math.max(0, (value - span.low) / (span.high - span.low || 1)));
  const last = axis.length - 1;
  const at = (column: number, row: number, lift: number): [number, number] => {
    const [x, y] = [column / last - 0.5, row / last - 0.5];
    // Rotated by 45 degrees and seen from 30 degrees above, so depth is half of width.
    return [width / 2 + 12 + (x - y) * 124, 184 + (x + y) * 62 - lift * 112];
  };
  const cells: string[] = [];
  for (const [i, row] of kept.slice(0, -1).entries()) {
    for (const [j, column] of kept.slice(0, -1).entries()) {
      const corners = [
        [column, row],
        [kept[j + 1]!, row],
        [kept[j + 1]!, kept[i + 1]!],
        [column, kept[i + 1]!],
      ].map(([c, r]) => ({ c: c!, r: r!, lift: toFraction(values[r!]![c!]!) }));
      const color = getHeatColor(corners.reduce((sum, { lift }) => sum + lift, 0) / 4);
      const points = corners.map(({ c, r, lift }) => {
        const [x, y] = at(c, r, lift);
        return `${x.toFixed(1)},${y.toFixed(1)}`;
      });
      cells.push(`<path d="M${points.join("L")}Z" fill="${color}"/>`);
    }
  }
  const floor = [at(0, 0, 0), at(last, 0, 0), at(last, last, 0), at(0, last, 0)].map((point) => point.join(","));
  const [axisX, axisY] = at(0, last, 0);
  const content = [
    `<path d="M${floor.join("L")}Z" fill="currentColor" fill-opacity="0.05" `,
    'stroke="currentColor" stroke-opacity="0.3"/>',
    `<path d="M${axisX},${axisY}v-112" stroke="currentColor" stroke-opacity="0.5"/>`,
    renderText(axisX - 4, axisY + 4, formatTick(span.low), 10, 'text-anchor="end"'),
    renderText(axisX - 4, axisY - 108, formatTick(span.high), 10, 'text-anchor="end"'),
    `<g stroke="#0b1020" stroke-opacity="0.35" stroke-width="0.4" stroke-linejoin="round">${cells.join("")}</g>`,
  ];
  return { title, width, height, content: roundSvgNumbers(content.join("")) };
}

/** Renders which color stands for which value, in all panels of a figure. */
export function renderColorScale(title: string, span: ValueRange): Panel {
  const [width, steps] = [276, 46];
  const cell = (width - 24) / steps;
  const cells = Array.from(
    { length: steps },
    (_, i) =>
      `<rect x="${12 + i * cell}" y="4" width="${cell + 0.5}" height="12" fill="${getHeatColor((i + 0.5) / steps)}"/>`,
  );
  const ticks = [0, 0.5, 1].map((fraction, i) =>
    renderText(
      12 + fraction * (width - 24),
      30,
      formatTick(span.low + fraction * (span.high - span.low)),
      10,
      `text-anchor="${["start", "middle", "end"][i]}"`,
    ),
  );
  return { title, width, height: 36, content: roundSvgNumbers([...cells, ...ticks].join("")) };
}
