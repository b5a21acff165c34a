import { z } from "zod";
import { prepareRun } from "../actions/train/prepare-run.js";
import { UserError } from "../base/errors.js";
import { reportProgress, warn } from "../base/events.js";
import { formatCount, formatPercent } from "../base/format.js";
import { isModulePath } from "../base/trust.js";
import { orNull } from "../base/validate.js";
import { inconsistencyPrefix } from "../evaluation/metric-table.js";
import { computeDisagreement, disagreementMetric } from "../methods/two-pass-loss.js";
import type { RunFolder } from "../runs/run-folder.js";
import { resolveRun } from "../settings/read-config.js";
import { runtimeOptions } from "../settings/runtime-config.js";
import { noGrad, type Tensor } from "../tensor/index.js";
import { type TrainingJob, type TrainingMethod, train } from "../train/index.js";
import { getColor } from "./colors.js";
import {
  type AnalysisContext,
  defineAnalysis,
  findLabeledRuns,
  type LabeledRun,
  runsOption,
} from "./define-analysis.js";
import type { Figure } from "./figure.js";
import { loadPlot } from "./load-plot.js";
import { freeAfter } from "./shared-sample.js";

/** consistency.json: how often two dropout passes give different predictions while a run trains. */
const dataSchema = z.object({
  label: z.string(),
  /** The rate over the first N steps. */
  first: z.array(z.object({ steps: z.number(), rate: z.number() })),
  steps: z.array(z.object({ step: z.number(), rate: z.number(), examples: z.number() })),
});
type ConsistencyData = z.output<typeof dataSchema>;
type ConsistencySteps = ConsistencyData["steps"];

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
    runs: runsOption("a finished run"),
    steps: stepsSchema,
    device: orNull(z.string(), "as in training").describe("auto, cpu, cuda or cuda:N"),
    threads: runtimeOptions.threads.meta({ whenNull: "as in training" }).describe("CPU threads"),
  },
  data: dataSchema,
  async run(request, context) {
    const [each] = (await findLabeledRuns(request.runs, 1)) as [LabeledRun];
    const counts = request.steps.toSorted((a, b) => a - b);
    const steps = (await readDisagreement(each.run)) ?? (await retrain(each, counts.at(-1)!, request, context));
    if (steps.length === 0) throw new UserError(`${each.run.folder}: no step was trained.`);
    // A run with fewer steps is reported over all of them.
    const fitting = counts.filter((count) => count <= steps.length);
    const first = computeDisagreementRates(steps, fitting.length > 0 ? fitting : [steps.length]);
    const data = { label: each.label, first, steps };
    return { data, summary: summarizeConsistency(data), figure: await createConsistencyFigure(data) };
  },
});

async function readDisagreement(run: RunFolder): Promise<ConsistencySteps | null> {
  const examples = new Map((await run.timings()).map((timing) => [timing.step, timing.examples ?? 1]));
  const steps = (await run.events()).flatMap(({ step, [disagreementMetric]: rate }) =>
    typeof rate === "number" ? [{ step, rate, examples: examples.get(step) ?? 1 }] : [],
  );
  return steps.length > 0 ? steps : null;
}

async function retrain(
  { run, results }: LabeledRun,
  maxSteps: number,
  { device, threads }: { readonly device: string | null; readonly threads: number | null },
  context: AnalysisContext,
): Promise<ConsistencySteps> {
  const { config } = run;
  const code = config.methods.find(({ name }) => isModulePath(name));
  if (code)
    throw new UserError(
      `${run.folder}: its method ${code.name} is code, which an analysis does not run. Choose a run with built-in methods.`,
    );
  if (!config.train.dropout)
    throw new UserError(`${run.folder} was trained without dropout, so its predictions cannot differ.`);
  const stopAfter = Math.min(results.steps, maxSteps);
  warn(context, `The run did not log disagreement. Training its first ${stopAfter} steps again.`);
  const runtime = { device: device ?? config.device, threads: threads ?? config.threads };
  const { job } = await prepareRun(
    await resolveRun({ ...config, ...runtime }, { trust: "data", folder: "." }, () => run.folder),
    context,
  );
  return freeAfter(job.model, () =>
    observeConsistency({ ...job, stopAfter, signal: context.signal }, (step) =>
      reportProgress(context, "consistency", step, stopAfter),
    ),
  );
}

/**
 * Logs the fraction of predictions that differ between two dropout passes. Missing passes run
 * without gradients and with their own random streams, so that training does not change.
 */
export function createDropoutObserver(): TrainingMethod {
  return {
    name: "dropout-observer",
    gradients(context, next) {
      const gradients = next();
      const computeLogits = (pass: string): Tensor => noGrad(() => context.pass(pass).logits);
      const first = computeLogits(context.hasPass("clean") ? "clean" : "observed");
      const second = computeLogits(context.hasPass("clean") && context.hasPass("again") ? "again" : "observed-again");
      context.log(disagreementMetric, computeDisagreement(first, second));
      return gradients;
    },
  };
}

export async function observeConsistency(
  job: Omit<TrainingJob, "files" | "resume">,
  onStep?: (step: number) => void,
): Promise<ConsistencySteps> {
  const rates = new Map<number, number>();
  const examples = new Map<number, number>();
  await train({
    ...job,
    methods: [...job.methods, createDropoutObserver()],
    validation: null,
    files: null,
    resume: false,
    onEvent(event) {
      if (event.type === "log") rates.set(event.entry.step as number, event.entry[disagreementMetric] as number);
      if (event.type !== "step") return;
      examples.set(event.step, event.examples);
      onStep?.(event.step);
    },
  });
  return [...rates].map(([step, rate]) => ({ step, rate, examples: examples.get(step) ?? 0 }));
}

/** The fraction of differing predictions over the first N steps, for each N that was reached. */
export function computeDisagreementRates(steps: ConsistencySteps, counts: readonly number[]): ConsistencyData["first"] {
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
  const { Plot, plotPanel } = await loadPlot();
  const width = Math.max(1, Math.ceil(steps.length / maxCurvePoints));
  const averages: { step: number; y: number }[] = [];
  for (let start = 0; start < steps.length; start += width) {
    const part = steps.slice(start, start + width);
    averages.push({ step: part.at(-1)!.step, y: (100 * part.reduce((sum, { rate }) => sum + rate, 0)) / part.length });
  }
  const cumulative = computeDisagreementRates(
    steps,
    averages.map(({ step }) => step),
  ).map(({ steps: step, rate }) => ({ step, y: 100 * rate }));
  const marks = first.map(({ steps: step, rate }) => ({ step, y: 100 * rate, text: formatPercent(rate) }));
  const panel = plotPanel(label, {
    width: 480,
    height: 280,
    marginRight: 54,
    x: { label: "step", ticks: 6, zero: true },
    y: { label: "predictions that differ (%)", grid: true, zero: true, nice: true, ticks: 6 },
    marks: [
      Plot.line(averages, { x: "step", y: "y", stroke: getColor(0), strokeOpacity: 0.55, strokeWidth: 1.3 }),
      Plot.line(cumulative, { x: "step", y: "y", stroke: getColor(1), strokeWidth: 2.2 }),
      Plot.dot(marks, { x: "step", y: "y", fill: getColor(1), r: 4 }),
      Plot.text(marks, { x: "step", y: "y", text: "text", textAnchor: "start", dx: 5, dy: -9 }),
    ],
  });
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
