import { describeMetric } from "../evaluation/metric-table.js";
import type { RunEvent, RunFolder } from "../runs/run-folder.js";
import type { ChartData, Series } from "./api.js";

/** Maximum number of points of a line. A screen shows no more. */
const maxPoints = 400;
/** Keys of an event that have their own charts. Others are values that methods log. */
const trainerKeys = new Set(["step", "epoch", "learningRate", "gradientNorm", "evaluation", "best", "distance"]);
/** The loss, and its terms. */
const lossKey = /^loss(\.|$)/;
/** Charts that come first, in this order. */
const firstCharts = { loss: "Training loss", metrics: "Validation metrics", "validation-loss": "Validation loss" };
const titles: Readonly<Record<string, string>> = {
  ...firstCharts,
  "learning-rate": "Learning rate",
  distance: "Distance from the pre-trained weights",
  "gradient-norm": "Gradient norm",
  throughput: "Throughput",
};

/** A value of a line at a step. */
interface LoggedPoint {
  readonly chart: string;
  readonly line: string;
  readonly step: number;
  readonly value: unknown;
}

type Lines = Map<string, { readonly steps: number[]; readonly values: number[] }>;

/** The charts of a run, from its events and timings. Charts without a curve are left out. */
export async function readCharts(run: RunFolder): Promise<ChartData[]> {
  const [events, timings] = await Promise.all([run.events(), run.timings()]);
  const charts = new Map<string, Lines>(Object.keys(firstCharts).map((id) => [id, new Map()]));
  const add = ({ chart, line, step, value }: LoggedPoint): void => {
    if (typeof value !== "number" || !Number.isFinite(value)) return;
    const lines: Lines = charts.get(chart) ?? new Map();
    charts.set(chart, lines);
    const { steps, values } = lines.get(line) ?? { steps: [], values: [] };
    lines.set(line, { steps, values });
    steps.push(step);
    values.push(value);
  };
  for (const event of events) for (const point of listPoints(event)) add(point);
  for (const { step, seconds, examples } of timings) {
    const line = examples === undefined ? "steps per second" : "examples per second";
    if (seconds > 0) add({ chart: "throughput", line, step, value: (examples ?? 1) / seconds });
  }
  // With a single term, the total is the same line.
  const losses = charts.get("loss")!;
  if (losses.size === 2 && losses.has("loss"))
    for (const name of losses.keys()) if (name !== "loss") losses.delete(name);
  return [...charts]
    .filter(([, lines]) => [...lines.values()].some(({ steps }) => steps.length > 1))
    .map(([id, lines]) => ({
      id,
      title: titles[id] ?? id,
      unit: id === "metrics" ? "percent" : "number",
      series: [...lines].map(([name, line]) => ({ name, ...downsample(line) })),
    }));
}

function* listPoints(event: RunEvent): Generator<LoggedPoint> {
  const { step, learningRate, gradientNorm, evaluation, distance } = event;
  for (const [key, value] of Object.entries(event)) {
    if (trainerKeys.has(key)) continue;
    // A value and its parts, such as those of the layers, share a chart: `rose.updateRatio.3`.
    const [method, name, part] = key.split(".", 3);
    const chart = lossKey.test(key) ? "loss" : part === undefined ? key : `${method}.${name}`;
    yield { chart, line: chart === "loss" || part === undefined ? key : formatLayer(part), step, value };
  }
  for (const [id, value] of Object.entries(evaluation ?? {})) {
    const { title, unit } = describeMetric(id);
    const chart = id === "loss" || unit === "nats" ? "validation-loss" : "metrics";
    yield { chart, line: id === "loss" ? "loss" : title, step, value };
  }
  for (const [key, value] of Object.entries((distance as Record<string, number> | undefined) ?? {}))
    yield { chart: "distance", line: key === "all" ? "encoder" : formatLayer(key), step, value };
  yield { chart: "learning-rate", line: "learning rate", step, value: learningRate };
  yield { chart: "gradient-norm", line: "gradient norm", step, value: gradientNorm };
}

/** Averages neighboring points if there are more than a chart can show. */
function downsample({ steps, values }: Omit<Series, "name">): Omit<Series, "name"> {
  const size = Math.ceil(steps.length / maxPoints);
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

function formatLayer(name: string): string {
  return /^\d+$/.test(name) ? `layer ${name}` : name;
}
