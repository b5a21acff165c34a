import { z } from "zod";
import { UserError } from "../base/errors.js";
import { formatInterval, formatNumber, formatPercent } from "../base/format.js";
import { standardDeviation, wilsonInterval } from "../evaluation/statistics.js";
import { readModelConfig } from "../models/config.js";
import { mapWeights, type Weights } from "../nn/index.js";
import type { RunFolder } from "../runs/run-folder.js";
import { noGrad, scope, type Tensor } from "../tensor/index.js";
import { getColor } from "./colors.js";
import { defineAnalysis, findLabeledRuns, linspace, runsOption, sampleOptions } from "./define-analysis.js";
import type { Figure } from "./figure.js";
import type { BandPoint } from "./plot-panel.js";
import { type ExampleLosses, freeAfter, loadFineTunedModel, loadSharedSample, withModel } from "./shared-sample.js";

/** interpolation.json: loss and accuracy on the line through two models. */
const dataSchema = z.object({
  from: z.string(),
  to: z.string(),
  task: z.string(),
  split: z.string(),
  examples: z.number(),
  /** `lossError` is the standard error of the loss over the examples. */
  points: z.array(z.object({ alpha: z.number(), loss: z.number(), accuracy: z.number(), lossError: z.number() })),
  /** The highest loss between the two models minus the higher of their losses; at least 0. */
  barrier: z.number(),
});
type InterpolationData = z.output<typeof dataSchema>;

export const interpolation = defineAnalysis({
  name: "interpolation",
  summary: "loss and accuracy on the line through two models (ROSE eq. 7, fig. 4)",
  unit: "points",
  options: {
    runs: runsOption("two finished runs: the one at alpha 0 and the one at alpha 1"),
    points: z.number().int().min(2).default(51).describe("points on the line, besides the two models"),
    from: z.number().default(-0.5).describe("first alpha"),
    to: z.number().default(1.5).describe("last alpha"),
    ...sampleOptions(500),
  },
  data: dataSchema,
  async run(request, context) {
    const runs = await findLabeledRuns(request.runs, 2);
    const alphas = createAlphas(request.from, request.to, request.points);
    await checkSameNetwork(runs.map(({ run }) => run));
    const sample = await loadSharedSample(runs, request, context);
    const [first, second] = runs as [(typeof runs)[number], (typeof runs)[number]];
    const line = await freeAfter(await loadFineTunedModel(second.run, sample.device), (other) =>
      withModel(
        sample,
        () => loadFineTunedModel(first.run, sample.device),
        (model, batch) =>
          measureLine(model.weights, other.weights, alphas, batch.measure, (done) =>
            context.advance(done, alphas.length),
          ),
      ),
    );
    const names = { from: first.label, to: second.label, task: sample.task.name, split: request.split };
    const data = { ...names, examples: sample.examples.length, ...line };
    return { data, summary: summarizeInterpolation(data), figure: await createInterpolationFigure(data) };
  },
});

/** Rejects models that are different functions of their weights: a mixture means nothing then. */
async function checkSameNetwork(runs: readonly RunFolder[]): Promise<void> {
  const [first, second] = await Promise.all(runs.map(describeNetwork));
  for (const [key, ours] of Object.entries(first!)) {
    const theirs = second![key];
    if (ours !== theirs)
      throw new UserError(
        `${runs.map(({ folder }) => folder).join(" and ")} differ in ${key} (${ours} and ${theirs}), so a mixture of ` +
          "their weights is no model. Use two runs with the same settings.",
      );
  }
}

async function describeNetwork(run: RunFolder): Promise<Record<string, unknown>> {
  const { head, pooling, tokenization, maxLength } = run.config;
  const { labels, ...encoder } = await readModelConfig(run.path("model"));
  const { modelType, hiddenSize, numHiddenLayers, numAttentionHeads, intermediateSize, activation } = encoder;
  const architecture = { modelType, hiddenSize, numHiddenLayers, numAttentionHeads, intermediateSize, activation };
  const reading = { head, pooling, tokenization, maxLength, tokenizer: (await run.environment())?.tokenizer };
  return { ...architecture, ...reading, labels: labels.join(", ") };
}

/** The alphas of a line, the two models among them. One of the others must be between the models. */
function createAlphas(from: number, to: number, points: number): number[] {
  if (!(from < to)) throw new UserError(`--from ${from} --to ${to}: expected --from to be smaller than --to.`);
  const alphas = linspace(from, to, points);
  if (alphas.some((alpha) => alpha > 0 && alpha < 1)) return [...new Set([...alphas, 0, 1])].sort((a, b) => a - b);
  throw new UserError(
    `--from ${from} --to ${to} --points ${points}: no point is between the two models (alpha 0 and 1). ` +
      "Increase --points, or use a range that contains 0 to 1.",
  );
}

function getMatching(weights: Weights, name: string, { shape }: Tensor): Tensor {
  const tensor = weights.get(name);
  if (!tensor || tensor.shape.join() !== shape.join())
    throw new UserError(`The two models differ in the shape of ${name}. Use runs of the same model and task.`);
  return tensor;
}

/** (1 - alpha) theta + alpha theta' (ROSE eq. 7, WiSE-FT), bitwise exact at 0 and 1. */
export function interpolateWeights(from: Weights, to: Weights, alpha: number): Map<string, Tensor> {
  return noGrad(() =>
    mapWeights(from, (tensor, name) => {
      const other = getMatching(to, name, tensor);
      if (alpha === 0 || alpha === 1) return alpha === 0 ? tensor : other;
      return tensor.mul(1 - alpha).add(other.mul(alpha));
    }),
  );
}

export async function measureLine(
  from: Weights,
  to: Weights,
  alphas: readonly number[],
  measure: (weights: Weights) => ExampleLosses,
  onPoint?: (done: number) => Promise<void>,
): Promise<Pick<InterpolationData, "points" | "barrier">> {
  const points: InterpolationData["points"] = [];
  for (const alpha of alphas) {
    const { loss, accuracy, losses } = scope(() => measure(interpolateWeights(from, to, alpha)));
    points.push({ alpha, loss, accuracy, lossError: standardDeviation(losses) / Math.sqrt(losses.length) });
    await onPoint?.(points.length);
  }
  const between = points.filter(({ alpha }) => alpha >= 0 && alpha <= 1);
  const ends = [measure(from).loss, measure(to).loss];
  return { points, barrier: Math.max(0, Math.max(...between.map(({ loss }) => loss)) - Math.max(...ends)) };
}

function summarizeInterpolation({ from, to, barrier, points, examples }: InterpolationData): string {
  const worst = points.reduce((a, b) => (b.accuracy < a.accuracy ? b : a));
  const { low, high } = wilsonInterval(Math.round(worst.accuracy * examples), examples);
  const rise = `the loss rises by ${formatNumber(barrier, 3)} nats above the higher end`;
  const position = `at alpha ${formatNumber(worst.alpha, 2)}`;
  const lowest = `lowest accuracy of ${points.length} points is ${formatPercent(worst.accuracy)} ${position}`;
  const interval = `95% CI ${formatInterval(low, high)}, ${examples} examples`;
  return `Between ${from} and ${to}, ${rise}. The ${lowest} (${interval}).`;
}

/** A y axis of the values, with a minimum span so that a flat line looks flat. */
function createAxis(label: string, values: readonly BandPoint[], minSpan: number) {
  const low = Math.min(...values.map((point) => point.low));
  const high = Math.max(...values.map((point) => point.high));
  const missing = Math.max(0, minSpan - (high - low)) / 2;
  return { label, domain: [low - missing, high + missing], grid: true, nice: true, ticks: 5 };
}

async function createInterpolationFigure(data: InterpolationData): Promise<Figure> {
  const { from, to, task, split, examples, points } = data;
  const { Plot, plotPanel, drawLine } = await import("./plot-panel.js");
  const names = [`0: ${from}`, `1: ${to}`].join(", ");
  const panel = (title: string, label: string, minSpan: number, values: readonly BandPoint[]) =>
    plotPanel(title, {
      width: 380,
      height: 240,
      x: { label: `alpha (${names})`, domain: [points[0]!.alpha, points.at(-1)!.alpha], ticks: 6 },
      y: createAxis(label, values, minSpan),
      marks: [
        Plot.ruleX([0, 1], { stroke: "currentColor", strokeOpacity: 0.35, strokeDasharray: "3 3" }),
        ...drawLine(values, { color: lineColor }),
        Plot.dot(
          values.filter(({ x }) => x === 0 || x === 1),
          { x: "x", y: "y", fill: lineColor, r: 4 },
        ),
      ],
    });
  const losses = points.map(({ alpha: x, loss: y, lossError }) => {
    return { x, y, low: y - 1.96 * lossError, high: y + 1.96 * lossError };
  });
  const accuracies = points.map(({ alpha: x, accuracy }) => {
    const interval = wilsonInterval(Math.round(accuracy * examples), examples);
    return { x, y: 100 * accuracy, low: 100 * interval.low, high: 100 * interval.high };
  });
  return {
    title: `Between ${from} and ${to}`,
    caption:
      `${from} is at alpha 0, ${to} at alpha 1; all other points interpolate the weights linearly. ` +
      `Bands are 95% CIs over ${examples} examples of the ${split} split of ${task}. All points have the same ` +
      "examples, so differences along a line are smaller than its band.",
    panels: [panel("loss", "cross-entropy (nats)", 0.1, losses), panel("accuracy", "accuracy (%)", 10, accuracies)],
    columns: 2,
  };
}

/** A color that is no method's. */
const lineColor = getColor(7);
