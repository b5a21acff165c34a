import { z } from "zod";
import { UserError } from "../base/errors.js";
import { formatCount, formatPercent } from "../base/format.js";
import { disagreementMetric, inconsistencyPrefix } from "../evaluation/metric-table.js";
import type { RunFolder } from "../runs/run-folder.js";
import { getColor } from "./colors.js";
import { defineAnalysis, findLabeledRuns, type LabeledRun, runsOption } from "./define-analysis.js";
import type { Figure } from "./figure.js";

/** consistency.json: how often two dropout passes gave different predictions while a run trained. */
const dataSchema = z.object({
  label: z.string(),
  first: z.array(z.object({ steps: z.number(), rate: z.number() })),
  steps: z.array(z.object({ step: z.number(), rate: z.number(), examples: z.number() })),
});
type ConsistencyData = z.output<typeof dataSchema>;
const stepsSchema = z
  .array(z.number().int().positive(), { error: "expected numbers of steps, such as 200,600,2000" })
  .min(1)
  .default([200, 600, 2000, 4000])
  .describe("report the rate over the first N steps, for each N");

export const consistency = defineAnalysis({
  name: "consistency",
  summary: "how often two dropout passes give different predictions (ROSE table 4)",
  unit: "steps",
  isPerRun: true,
  listMetrics: ({ steps }) => stepsSchema.parse(steps).map((count) => `${inconsistencyPrefix}${count}`),
  options: {
    runs: runsOption("a finished run of a method with two dropout passes, such as rose or r-drop"),
    steps: stepsSchema,
  },
  data: dataSchema,
  async run(request) {
    const [{ run, label }] = (await findLabeledRuns(request.runs, 1)) as [LabeledRun];
    const counts = request.steps.toSorted((a, b) => a - b);
    const steps = await readDisagreement(run);
    // A run with fewer steps is reported over all of them.
    const fitting = counts.filter((count) => count <= steps.length);
    const first = computeDisagreementRates(steps, fitting.length > 0 ? fitting : [steps.length]);
    const data = { label, first, steps };
    return { data, summary: summarizeConsistency(data), figure: await createConsistencyFigure(data) };
  },
});

async function readDisagreement(run: RunFolder): Promise<ConsistencyData["steps"]> {
  const examples = new Map((await run.timings()).map((timing) => [timing.step, timing.examples ?? 1]));
  const steps = (await run.events()).flatMap(({ step, [disagreementMetric]: rate }) =>
    typeof rate === "number" ? [{ step, rate, examples: examples.get(step) ?? 1 }] : [],
  );
  if (steps.length === 0)
    throw new UserError(
      `${run.folder}: ${run.method} has one dropout pass per step, so no two were compared. ` +
        "Choose a run of rose or r-drop, which log how often the predictions of their two passes differ.",
    );
  return steps;
}

export function computeDisagreementRates(
  steps: ConsistencyData["steps"],
  counts: readonly number[],
): ConsistencyData["first"] {
  return counts
    .filter((count) => count <= steps.length)
    .map((count) => {
      let [differing, all] = [0, 0];
      for (const { rate, examples } of steps.slice(0, count)) {
        differing += rate * examples;
        all += examples;
      }
      return { steps: count, rate: differing / all };
    });
}

function summarizeConsistency({ label, first }: ConsistencyData): string {
  const each = first.map(({ steps, rate }) => `${formatPercent(rate, 2)} over the first ${formatCount(steps)} steps`);
  return `${label}: two dropout passes give different predictions for ${each.join(", ")}.`;
}

const maxCurvePoints = 120;

async function createConsistencyFigure({ label, first, steps }: ConsistencyData): Promise<Figure> {
  const { Plot, plotPanel, downsample } = await import("./plot-panel.js");
  const averages = downsample(
    steps.map(({ step, rate }) => ({ x: step, y: 100 * rate })),
    maxCurvePoints,
  );
  const cumulative = computeDisagreementRates(
    steps,
    averages.map(({ x }) => x),
  ).map(({ steps: x, rate }) => ({ x, y: 100 * rate }));
  const marks = first.map(({ steps: x, rate }) => ({ x, y: 100 * rate, text: formatPercent(rate) }));
  const point = { x: "x", y: "y" };
  const panel = plotPanel(label, {
    width: 480,
    height: 280,
    marginRight: 54,
    x: { label: "step", ticks: 6, zero: true },
    y: { label: "predictions that differ (%)", grid: true, zero: true, nice: true, ticks: 6 },
    marks: [
      Plot.line(averages, { ...point, stroke: getColor(0), strokeOpacity: 0.55, strokeWidth: 1.3 }),
      Plot.line(cumulative, { ...point, stroke: getColor(1), strokeWidth: 2.2 }),
      Plot.dot(marks, { ...point, fill: getColor(1), r: 4 }),
      Plot.text(marks, { ...point, text: "text", textAnchor: "start", dx: 5, dy: -9 }),
    ],
  });
  const width = Math.ceil(steps.length / maxCurvePoints);
  return {
    title: "Predictions that differ between two dropout passes",
    caption:
      "Percentage of training examples whose predicted class differs between two dropout passes with the same weights.",
    legend: [
      { label: "all steps so far", color: getColor(1), shape: "line" },
      { label: width === 1 ? "single steps" : `means of ${width} steps`, color: getColor(0), shape: "line" },
    ],
    panels: [panel],
    columns: 1,
  };
}
