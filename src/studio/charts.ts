import { describeMetric } from "../evaluation/metric-table.js";
import type { RunEvent, RunFolder } from "../runs/run-folder.js";
import type { ChartData, Series } from "./api.js";

/** Maximum number of points of a line. A screen shows no more. */
const maxPoints = 400;
/** Keys of an event that are not loss terms. */
const otherKeys = new Set(["step", "epoch", "learningRate", "gradientNorm", "evaluation", "best", "distance"]);
const updateRatioPrefix = "rose.updateRatio";

/** Collects the points of one line after the other. */
class SeriesBuilder {
  readonly #lines = new Map<string, { steps: number[]; values: number[] }>();

  add(name: string, step: number, value: unknown): void {
    if (typeof value !== "number" || !Number.isFinite(value)) return;
    const line = this.#lines.get(name) ?? { steps: [], values: [] };
    this.#lines.set(name, line);
    line.steps.push(step);
    line.values.push(value);
  }

  build(): Series[] {
    return [...this.#lines].map(([name, line]) => ({ name, ...downsample(line) }));
  }
}

/** Averages neighboring points if there are more than a chart can show. */
function downsample({ steps, values }: Omit<Series, "name">, max = maxPoints): Omit<Series, "name"> {
  const size = Math.ceil(steps.length / max);
  if (size <= 1) return { steps, values };
  const starts = Array.from({ length: Math.ceil(steps.length / size) }, (_, i) => i * size);
  return {
    steps: starts.map((start) => steps[Math.min(start + size, steps.length) - 1]!),
    values: starts.map((start) => {
      const part = values.slice(start, start + size);
      return part.reduce((sum, value) => sum + value, 0) / part.length;
    }),
  };
}

/** The charts of a run, from its events and timings. Charts without points are left out. */
export async function readCharts(run: RunFolder): Promise<ChartData[]> {
  const [events, timings] = await Promise.all([run.events(), run.timings()]);
  const throughput = new SeriesBuilder();
  for (const { step, seconds, examples } of timings) {
    if (examples !== undefined && seconds > 0) throughput.add("examples per second", step, examples / seconds);
    else if (seconds > 0) throughput.add("steps per second", step, 1 / seconds);
  }
  const charts: ChartData[] = [
    ...createEventCharts(events),
    { id: "throughput", title: "Throughput", unit: "number", series: throughput.build() },
  ];
  return charts.filter(({ series }) => series.length > 0);
}

function createEventCharts(events: readonly RunEvent[]): ChartData[] {
  const [loss, rate, gradient, ratio, layers, distance] = Array.from({ length: 6 }, () => new SeriesBuilder());
  const metrics = { percent: new SeriesBuilder(), number: new SeriesBuilder() };
  for (const event of events) {
    const { step } = event;
    rate!.add("learning rate", step, event.learningRate);
    gradient!.add("gradient norm", step, event.gradientNorm);
    for (const [key, value] of Object.entries(event)) {
      if (otherKeys.has(key)) continue;
      if (key === updateRatioPrefix) ratio!.add("all layers", step, value);
      else if (key.startsWith(`${updateRatioPrefix}.`))
        layers!.add(formatLayer(key.slice(updateRatioPrefix.length + 1)), step, value);
      else loss!.add(key, step, value);
    }
    for (const [id, value] of Object.entries(event.evaluation ?? {})) {
      const { title, unit } = describeMetric(id);
      if (id === "loss" || unit === "nats") metrics.number.add(id === "loss" ? "loss" : title, step, value);
      else metrics.percent.add(title, step, value);
    }
    for (const [key, value] of Object.entries((event.distance as Record<string, number> | undefined) ?? {}))
      distance!.add(key === "all" ? "encoder" : formatLayer(key), step, value);
  }
  return [
    { id: "loss", title: "Loss terms", unit: "number", series: loss!.build() },
    { id: "metrics", title: "Validation metrics", unit: "percent", series: metrics.percent.build() },
    { id: "validation-loss", title: "Validation loss", unit: "number", series: metrics.number.build() },
    { id: "learning-rate", title: "Learning rate", unit: "number", series: rate!.build() },
    {
      id: "update-ratio",
      title: "ROSE: updated parameters per layer",
      unit: "percent",
      series: [...ratio!.build(), ...layers!.build()],
    },
    { id: "distance", title: "Distance from the pre-trained weights", unit: "number", series: distance!.build() },
    { id: "gradient-norm", title: "Gradient norm", unit: "number", series: gradient!.build() },
  ];
}

function formatLayer(name: string): string {
  return /^\d+$/.test(name) ? `layer ${name}` : name;
}
