import * as Plot from "@observablehq/plot";
import { z } from "zod";
import { UserError } from "../errors.js";
import { formatCount, formatPercent } from "../format.js";
import { computeDisagreement, disagreementMetric } from "../methods/two-pass-loss.js";
import { readEvents, readTimings } from "../runs/read-events.js";
import { noGrad, type Tensor } from "../tensor/index.js";
import type { TrainingJob, TrainingMethod } from "../train/index.js";
import { train } from "../train/index.js";
import { getColor } from "./colors.js";
import { type Figure, plotPanel } from "./figure.js";
import type { Analysis } from "./write-analysis.js";

/** consistency.json: how often two dropouts give different predictions while a run trains. */
export const consistencySchema = z.object({
  label: z.string(),
  /** The share over the first so many steps. */
  first: z.array(z.object({ steps: z.number(), share: z.number() })),
  steps: z.array(z.object({ step: z.number(), share: z.number(), examples: z.number() })),
});
export type ConsistencyData = z.output<typeof consistencySchema>;

/** The steps of ROSE's table 4. */
export const paperStepCounts = [200, 600, 2000, 4000];

/**
 * A layer that only looks: at each step it logs the share of predictions that differ between two dropout passes. Passes that the
 * methods beneath made are used; what is missing is run without gradients, from a random stream of its own, so that training goes as it would.
 */
export function createDropoutObserver(): TrainingMethod {
  return {
    name: "dropout-observer",
    gradients(step, next) {
      const gradients = next();
      const logits = (pass: string): Tensor => noGrad(() => step.pass(pass).logits);
      const first = logits(step.hasPass("clean") ? "clean" : "observed");
      const second = logits(step.hasPass("clean") && step.hasPass("again") ? "again" : "observed-again");
      step.log(disagreementMetric, computeDisagreement(first, second));
      return gradients;
    },
  };
}

/** What a run's own events tell: those of methods with two passes do. Null where they do not. */
export async function readConsistency(folder: string): Promise<ConsistencyData["steps"] | null> {
  const events = (await readEvents(folder)).filter((event) => typeof event[disagreementMetric] === "number");
  const examples = await readExampleCounts(folder);
  const steps = events.map(({ step, [disagreementMetric]: share }) => ({
    step,
    share: share as number,
    examples: examples.get(step) ?? 1,
  }));
  return steps.length > 0 ? steps : null;
}

/** Examples of each update. */
async function readExampleCounts(folder: string): Promise<Map<number, number>> {
  return new Map((await readTimings(folder)).map(({ step, examples = 1 }) => [step, examples]));
}

/** Trains as the job says, without selecting or saving, and counts how often two dropouts disagree. */
export async function observeConsistency(
  job: TrainingJob,
  onStep?: (step: number) => void,
): Promise<ConsistencyData["steps"]> {
  const disagreementRates = new Map<number, number>();
  const examples = new Map<number, number>();
  await train({
    ...job,
    methods: [...job.methods, createDropoutObserver()],
    validation: null,
    folder: null,
    resume: false,
    callbacks: {
      onEvent: ({ step, [disagreementMetric]: share }) => void disagreementRates.set(step as number, share as number),
      onStep(report) {
        examples.set(report.step, report.examples);
        onStep?.(report.step);
      },
    },
  });
  return [...disagreementRates].map(([step, share]) => ({ step, share, examples: examples.get(step) ?? 0 }));
}

/** The share of differing predictions over the first so many steps, for as many as there are. */
export function computeDisagreementRates(
  steps: ConsistencyData["steps"],
  counts: readonly number[],
): ConsistencyData["first"] {
  return counts
    .filter((count) => count <= steps.length)
    .map((count) => {
      const part = steps.slice(0, count);
      const [differing, all] = part.reduce(
        ([sum, total], { share, examples }) => [sum + share * examples, total + examples],
        [0, 0],
      );
      return { steps: count, share: differing / all };
    });
}

export function createConsistencyAnalysis(
  label: string,
  steps: ConsistencyData["steps"],
  counts: readonly number[],
): Analysis<ConsistencyData> {
  if (steps.length === 0) throw new UserError(`consistency: ${label}: no step was trained`);
  // A short run is told by its whole length, at least.
  const fitting = counts.filter((count) => count <= steps.length);
  const data = { label, first: computeDisagreementRates(steps, fitting.length > 0 ? fitting : [steps.length]), steps };
  return {
    name: "consistency",
    schema: consistencySchema,
    data,
    meaning: summarizeConsistency(data),
    figure: createConsistencyFigure(data),
  };
}

function summarizeConsistency({ label, first }: ConsistencyData): string {
  const each = first.map(({ steps, share }) => `${formatPercent(share, 2)} over the first ${formatCount(steps)} steps`);
  return `${label}: two dropouts give different predictions for ${each.join(", ")}: so often dropout alone changes the answer.`;
}

/** Steps that one point of the curve stands for. */
const maxCurvePoints = 120;

function createConsistencyFigure({ label, first, steps }: ConsistencyData): Figure {
  const width = Math.max(1, Math.ceil(steps.length / maxCurvePoints));
  const window: { step: number; y: number }[] = [];
  for (let start = 0; start < steps.length; start += width) {
    const part = steps.slice(start, start + width);
    window.push({ step: part.at(-1)!.step, y: (100 * part.reduce((sum, { share }) => sum + share, 0)) / part.length });
  }
  const total = computeDisagreementRates(
    steps,
    window.map(({ step }) => step),
  ).map(({ steps: step, share }) => ({ step, y: 100 * share }));
  const marks = first.map(({ steps: step, share }) => ({ step, y: 100 * share, text: formatPercent(share) }));
  const panel = plotPanel(label, {
    width: 480,
    height: 280,
    marginRight: 54,
    x: { label: "step", ticks: 6, zero: true },
    y: { label: "predictions that differ (%)", grid: true, zero: true, nice: true, ticks: 6 },
    marks: [
      Plot.line(window, { x: "step", y: "y", stroke: getColor(0), strokeOpacity: 0.55, strokeWidth: 1.3 }),
      Plot.line(total, { x: "step", y: "y", stroke: getColor(1), strokeWidth: 2.2 }),
      Plot.dot(marks, { x: "step", y: "y", fill: getColor(1), r: 4 }),
      Plot.text(marks, { x: "step", y: "y", text: "text", textAnchor: "start", dx: 5, dy: -9 }),
    ],
  });
  return {
    title: "Predictions that differ between two dropouts",
    caption:
      "The share of training examples whose predicted class differs between two dropout passes of the same weights.",
    legend: [
      { label: "over all steps so far", color: getColor(1), shape: "line" },
      { label: width === 1 ? "step by step" : `means of ${width} steps`, color: getColor(0), shape: "line" },
    ],
    panels: [panel],
    columns: 1,
  };
}
