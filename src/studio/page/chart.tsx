import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { getColor } from "../../analysis/colors.js";
import { formatNumber, formatPercent } from "../../base/format.js";
import type { ChartData } from "../api.js";

const height = 200;

function readColor(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Draws the lines of a chart over the steps. */
export function Chart({ chart, theme }: { chart: ChartData; theme: string }) {
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const { series, unit } = chart;
  const format = (value: number): string => (unit === "percent" ? formatPercent(value) : formatNumber(value, 3));
  const names = series.map(({ name }) => name).join("\n");

  useEffect(() => {
    const box = element.current!;
    const axis = {
      stroke: readColor("--quiet"),
      grid: { stroke: readColor("--line"), width: 1 },
      ticks: { show: false },
    };
    const font = "12px system-ui, sans-serif";
    const made = new uPlot(
      {
        width: Math.max(200, box.clientWidth),
        height,
        legend: { show: false },
        cursor: { drag: { x: true, y: false } },
        scales: { x: { time: false } },
        axes: [
          { ...axis, font, label: "step", labelFont: font, labelSize: 14, labelGap: -6, size: 26 },
          { ...axis, font, size: 60, values: (_, ticks) => ticks.map(format) },
        ],
        series: [
          {},
          ...series.map((line, i) => ({
            stroke: line.color ?? getColor(i),
            width: 2,
            spanGaps: true,
            points: { show: line.steps.length < 30 },
          })),
        ],
      },
      joinLines(chart),
      box,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: Math.max(200, box.clientWidth), height }));
    observer.observe(box);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [names, unit, theme]);

  useEffect(() => plot.current?.setData(joinLines(chart)), [chart]);

  const description = series
    .map(
      ({ name, steps, values }) =>
        `${name} from ${format(values[0]!)} to ${format(values.at(-1)!)} at step ${steps.at(-1)}`,
    )
    .join("; ");
  return (
    <figure class="chart">
      <figcaption>
        <b>{chart.title}</b>
        <span class="sr-only">: {description}</span>
      </figcaption>
      <ul class="legend" aria-hidden="true">
        {series.map(({ name, values, color }, i) => (
          <li key={name}>
            <span class="swatch" style={{ background: color ?? getColor(i) }} />
            {name} <b>{format(values.at(-1)!)}</b>
          </li>
        ))}
      </ul>
      <div ref={element} class="plot" aria-hidden="true" style={{ height: `${height}px` }} />
    </figure>
  );
}

/** The lines on one axis of steps. Steps that a line lacks are null. */
function joinLines({ series }: ChartData): uPlot.AlignedData {
  if (series.length === 0) return [[]];
  return uPlot.join(series.map(({ steps, values }) => [[...steps], [...values]] as uPlot.AlignedData));
}
