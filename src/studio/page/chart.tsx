import { useState } from "preact/hooks";
import { getColor } from "../../analysis/colors.js";
import { formatNumber, formatPercent } from "../../base/format.js";
import type { ChartData, Series } from "../api.js";

/** Units of the drawing. It is scaled to the width of its place. */
const [width, height] = [480, 200];
const box = { left: 52, right: 472, top: 8, bottom: 176 };

/** Draws the lines of a chart over the steps. The legend has the values at the pointer, or the last ones. */
export function Chart({ chart: { title, unit, series } }: { chart: ChartData }) {
  const [pointed, setPointed] = useState<number | null>(null);
  const format = (value: number): string => (unit === "percent" ? formatPercent(value) : formatNumber(value, 3));
  const steps = createScale(
    series.flatMap((line) => line.steps),
    box.left,
    box.right,
  );
  const values = createScale(
    series.flatMap((line) => line.values),
    box.bottom,
    box.top,
  );
  const description = series.map(
    ({ name, steps: own, values: all }) =>
      `${name} from ${format(all[0]!)} to ${format(all.at(-1)!)} at step ${own.at(-1)}`,
  );
  return (
    <figure class="chart">
      <figcaption>
        <b>{title}</b>
        <span class="sr-only">: {description.join("; ")}</span>
      </figcaption>
      <ul class="legend" aria-hidden="true">
        {series.map((line, i) => (
          <li key={line.name} style={{ "--swatch": line.color ?? getColor(i) }}>
            {line.name} <b>{format(readAt(line, pointed))}</b>
          </li>
        ))}
        {pointed !== null && <li class="plain">at step {Math.round(pointed)}</li>}
      </ul>
      <svg
        viewBox={`0 0 ${width} ${height}`}
        aria-hidden="true"
        onPointerLeave={() => setPointed(null)}
        onPointerMove={({ currentTarget, clientX }) => {
          const { left, width: shown } = currentTarget.getBoundingClientRect();
          setPointed(steps.invert(((clientX - left) / shown) * width));
        }}
      >
        {values.ticks.map((value) => (
          <g key={value}>
            <path class="grid" d={`M${box.left} ${values.place(value)}H${box.right}`} />
            <text x={box.left - 6} y={values.place(value) + 4} text-anchor="end">
              {format(value)}
            </text>
          </g>
        ))}
        {steps.ticks.filter(Number.isInteger).map((step) => (
          <text key={step} x={steps.place(step)} y={height - 6} text-anchor="middle">
            {step}
          </text>
        ))}
        {series.map((line, i) => (
          <polyline
            key={line.name}
            stroke={line.color ?? getColor(i)}
            points={line.steps.map((step, k) => `${steps.place(step)},${values.place(line.values[k]!)}`).join(" ")}
          />
        ))}
        {pointed !== null && <path class="grid" d={`M${steps.place(pointed)} ${box.top}V${box.bottom}`} />}
      </svg>
    </figure>
  );
}

/** The value of a line at the step that is closest to a position; at its end without one. */
function readAt({ steps, values }: Series, position: number | null): number {
  if (position === null) return values.at(-1)!;
  const distances = steps.map((step) => Math.abs(step - position));
  return values[distances.indexOf(Math.min(...distances))]!;
}

/** Places numbers between two ends of the drawing, with a few round ones as ticks. */
function createScale(numbers: readonly number[], start: number, end: number) {
  const [min, max] = [Math.min(...numbers), Math.max(...numbers)];
  // A line without any change lies in the middle.
  const margin = min === max ? Math.abs(min) / 2 || 1 : 0;
  const [low, high] = [min - margin, max + margin];
  const raw = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const gap = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= raw)!;
  const first = Math.ceil(low / gap);
  return {
    ticks: Array.from({ length: Math.floor(high / gap) - first + 1 }, (_, i) => (first + i) * gap),
    place: (value: number): number => start + ((value - low) / (high - low)) * (end - start),
    invert: (place: number): number =>
      Math.min(high, Math.max(low, low + ((place - start) / (end - start)) * (high - low))),
  };
}
