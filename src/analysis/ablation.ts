import { z } from "zod";
import { UserError } from "../base/errors.js";
import { formatPercent } from "../base/format.js";
import { describeMetric } from "../evaluation/metric-table.js";
import { mean, standardDeviation } from "../evaluation/statistics.js";
import { getColor } from "./colors.js";
import { defineAnalysis, runsOption } from "./define-analysis.js";
import type { Figure } from "./figure.js";
import { getOption } from "./run-labels.js";
import { findAttackedRuns, listAttacks, type MeasuredRun } from "./tradeoff.js";

const metricsSchema = z.record(z.string(), z.number());

/** ablation.json: accuracy, clean and under attacks, at each value of one option. */
const dataSchema = z.object({
  by: z.string(),
  metrics: z.array(z.string()),
  values: z.array(
    z.object({
      value: z.union([z.number(), z.string()]),
      runs: z.array(z.object({ folder: z.string(), seed: z.number(), metrics: metricsSchema })),
      mean: metricsSchema,
    }),
  ),
});
type AblationData = z.output<typeof dataSchema>;

export const ablation = defineAnalysis({
  name: "ablation",
  summary: "effect of one option on accuracy and robustness (RIFT table 4)",
  unit: "runs",
  readsAttacks: true,
  options: {
    runs: runsOption("runs that differ in one option, or folders of them"),
    by: z.string().describe("option of a method (alpha, rift.alpha) or setting (train.learningRate)"),
  },
  data: dataSchema,
  async run(request, context) {
    const data = collectAblation(await findAttackedRuns(request.runs, context), request.by);
    return { data, summary: summarizeAblation(data), figure: await createAblationFigure(data) };
  },
});

function collectAblation(runs: readonly MeasuredRun[], by: string): AblationData {
  const valued = runs.flatMap((run) => {
    const value = getOption(run.run, by);
    return value === null ? [] : [{ run, value }];
  });
  const distinct = [...new Set(valued.map(({ value }) => value))].sort((a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a) < String(b) ? -1 : 1,
  );
  if (distinct.length < 2) {
    const found = distinct.length === 0 ? "no run with this option" : `only ${by} ${distinct[0]}`;
    throw new UserError(`--by ${by}: expected runs with at least two values, found ${found}.`);
  }
  return {
    by,
    metrics: ["accuracy", ...listAttacks(valued.map(({ run }) => run))],
    values: distinct.map((value) => {
      const own = valued
        .filter((each) => each.value === value)
        .map(({ run: { run, measured } }) => {
          const metrics: Record<string, number> = { accuracy: measured.accuracy };
          for (const [id, { accuracy }] of Object.entries(measured.robust)) metrics[id] = accuracy;
          return { folder: run.folder, seed: run.config.seed, metrics };
        });
      const ids = [...new Set(own.flatMap(({ metrics }) => Object.keys(metrics)))];
      const average = (id: string): number => mean(own.flatMap(({ metrics }) => metrics[id] ?? []));
      return { value, runs: own, mean: Object.fromEntries(ids.map((id) => [id, average(id)])) };
    }),
  };
}

function summarizeAblation({ by, metrics, values }: AblationData): string {
  const sentences = metrics.map((id) => {
    const each = values.flatMap(({ value, runs, mean: means }) => {
      const own = runs.flatMap((run) => run.metrics[id] ?? []);
      if (means[id] === undefined) return [];
      const spread = own.length > 1 ? ` ± ${(100 * standardDeviation(own)).toFixed(1)}` : "";
      return [`${value}: ${formatPercent(means[id])}${spread} (${own.length} run${own.length === 1 ? "" : "s"})`];
    });
    const { title } = describeMetric(id);
    return `${title.charAt(0).toUpperCase()}${title.slice(1)} by ${by}: ${each.join(", ")}.`;
  });
  return sentences.join(" ");
}

async function createAblationFigure({ by, metrics, values }: AblationData): Promise<Figure> {
  const { Plot, plotPanel } = await import("./plot-panel.js");
  const marks = metrics.flatMap((id, i) => {
    const color = getColor(i);
    const toPoints = (value: number | string, y: number | undefined) =>
      y === undefined ? [] : [{ value, y: 100 * y, color }];
    const means = values.flatMap(({ value, mean: means }) => toPoints(value, means[id]));
    const points = values.flatMap(({ value, runs }) => runs.flatMap((run) => toPoints(value, run.metrics[id])));
    return [
      Plot.line(means, { x: "value", y: "y", stroke: "color", strokeWidth: 2 }),
      Plot.dot(points, { x: "value", y: "y", fill: "color", fillOpacity: 0.45, r: 3 }),
      Plot.dot(means, { x: "value", y: "y", fill: "color", r: 4.5 }),
    ];
  });
  const panel = plotPanel("", {
    width: 460,
    height: 300,
    // Values are seldom evenly spaced (0, 0.05, 0.1, 0.3), so they get equal distances.
    x: { label: by, type: "point", domain: values.map(({ value }) => value), padding: 0.3 },
    y: { label: "accuracy (%)", grid: true, nice: true, inset: 8, ticks: 6 },
    marks,
  });
  return {
    title: `Effect of ${by}`,
    caption: "Lines and large points are means over runs; small points are single runs.",
    legend: metrics.map((id, i) => ({ label: describeMetric(id).title, color: getColor(i), shape: "line" })),
    panels: [panel],
    columns: 1,
  };
}
