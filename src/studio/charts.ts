import { describeMetric } from "../evaluation/metric-table.js";
import type { RunEvent, RunFolder } from "../runs/run-folder.js";
import type { ChartData, Series } from "./api.js";

/** Maximum number of points of a line. A screen shows no more. */
const maxPoints = 400;
/** Keys of an event that the trainer writes. Others are values that methods log. */
const trainerKeys = new Set(["step", "epoch", "learningRate", "gradientNorm", "evaluation", "best", "distance"]);
/** The loss, and its terms. */
const lossKey = /^loss(\.|$)/;

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
  // One point is no curve.
  return charts.filter(({ series }) => series.some(({ steps }) => steps.length > 1));
}

function createEventCharts(events: readonly RunEvent[]): ChartData[] {
  const [loss, rate, gradient, distance] = Array.from({ length: 4 }, () => new SeriesBuilder());
  const metrics = { percent: new SeriesBuilder(), number: new SeriesBuilder() };
  const logged = new Map<string, SeriesBuilder>();
  for (const event of events) {
    const { step } = event;
    rate!.add("learning rate", step, event.learningRate);
    gradient!.add("gradient norm", step, event.gradientNorm);
    for (const [key, value] of Object.entries(event)) {
      if (trainerKeys.has(key)) continue;
      if (lossKey.test(key)) {
        loss!.add(key, step, value);
        continue;
      }
      // A value and its parts, such as those of the layers, share a chart.
      const [name, part] = splitPart(key);
      const chart = logged.get(name) ?? new SeriesBuilder();
      logged.set(name, chart);
      chart.add(part === undefined ? name : formatLayer(part), step, value);
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
    { id: "loss", title: "Training loss", unit: "number", series: mergeEqualTerms(loss!.build()) },
    { id: "metrics", title: "Validation metrics", unit: "percent", series: metrics.percent.build() },
    { id: "validation-loss", title: "Validation loss", unit: "number", series: metrics.number.build() },
    { id: "learning-rate", title: "Learning rate", unit: "number", series: rate!.build() },
    ...[...logged].map(
      ([name, chart]): ChartData => ({ id: name, title: name, unit: "number", series: chart.build() }),
    ),
    { id: "distance", title: "Distance from the pre-trained weights", unit: "number", series: distance!.build() },
    { id: "gradient-norm", title: "Gradient norm", unit: "number", series: gradient!.build() },
  ];
}

/** With a single term, the total is the same line. */
function mergeEqualTerms(series: readonly Series[]): readonly Series[] {
  return series.length === 2 && series.some(({ name }) => name === "loss")
    ? series.filter(({ name }) => name === "loss")
    : series;
}

/** `rose.updateRatio.3` is the part 3 of `rose.updateRatio`. */
function splitPart(key: string): [name: string, part?: string] {
  const [method, value, part] = key.split(".", 3);
  return part === undefined ? [key] : [`${method}.${value}`, part];
}

function formatLayer(name: string): string {
  return /^\d+$/.test(name) ? `layer ${name}` : name;
}
