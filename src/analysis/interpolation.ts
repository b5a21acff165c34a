import * as Plot from "@observablehq/plot";
import { z } from "zod";
import { UserError } from "../errors.js";
import { formatNumber, formatPercent } from "../format.js";
import { mapWeights, type Weights } from "../nn/index.js";
import { noGrad, scope, type Tensor } from "../tensor/index.js";
import { getColor } from "./colors.js";
import { type Figure, plotPanel } from "./figure.js";
import type { LossAndAccuracy } from "./fixed-batch.js";
import type { Analysis } from "./write-analysis.js";

/** interpolation.json: loss and accuracy on the line through two models. */
export const interpolationSchema = z.object({
  /** At alpha 0 and at alpha 1. */
  from: z.string(),
  to: z.string(),
  task: z.string(),
  split: z.string(),
  examples: z.number(),
  points: z.array(z.object({ alpha: z.number(), loss: z.number(), accuracy: z.number() })),
  /** The highest loss between the two, above the higher of theirs. */
  barrier: z.number(),
});
export type InterpolationData = z.output<typeof interpolationSchema>;

/** (1 - alpha) theta + alpha theta' (ROSE eq. 7). At 0 and 1 they are the weights themselves, to the bit. */
export function interpolateWeights(from: Weights, to: Weights, alpha: number): Map<string, Tensor> {
  return noGrad(() =>
    mapWeights(from, (tensor, name) => {
      const other = to.get(name);
      if (!other || other.shape.join() !== tensor.shape.join())
        throw new UserError(
          `interpolation: expected two models of one shape, but they differ in ${name}; compare runs of the same model and task`,
        );
      if (alpha === 0 || alpha === 1) return alpha === 0 ? tensor : other;
      return tensor.mul(1 - alpha).add(other.mul(alpha));
    }),
  );
}

/** Evenly spaced values from low to high, rounded so that 0 and 1 are met exactly where they fall on the grid. */
export function linspace(low: number, high: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) => Number((low + ((high - low) * i) / (count - 1)).toPrecision(12)));
}

/** The alphas of a line; refused where they would tell nothing of what lies between the two models. */
export function createAlphas(from: number, to: number, points: number): number[] {
  if (!(from < to))
    throw new UserError(
      `--from ${from} --to ${to}: expected a line that ends beyond where it begins; give the lesser as --from`,
    );
  const alphas = linspace(from, to, points);
  if (alphas.some((alpha) => alpha > 0 && alpha < 1)) return alphas;
  throw new UserError(
    `--from ${from} --to ${to} --points ${points}: expected a point between the two models (alpha 0 and 1), but none lies there; ` +
      "give more --points, or a range that holds 0 to 1",
  );
}

export interface InterpolationRequest {
  readonly from: { readonly label: string; readonly weights: Weights };
  readonly to: { readonly label: string; readonly weights: Weights };
  readonly facts: Pick<InterpolationData, "task" | "split" | "examples">;
  readonly alphas: readonly number[];
  readonly measure: (weights: Weights) => LossAndAccuracy;
  readonly onPoint?: (done: number) => void;
}

/** Loss and accuracy along the line between two models. */
export async function measureInterpolation(request: InterpolationRequest): Promise<Analysis<InterpolationData>> {
  const { from, to, facts, alphas, measure, onPoint } = request;
  const points: InterpolationData["points"] = [];
  for (const alpha of alphas) {
    points.push({ alpha, ...scope(() => measure(interpolateWeights(from.weights, to.weights, alpha))) });
    onPoint?.(points.length);
    await new Promise(setImmediate);
  }
  const inside = points.filter(({ alpha }) => alpha >= 0 && alpha <= 1);
  const ends = [measure(from.weights).loss, measure(to.weights).loss];
  const barrier = Math.max(0, Math.max(...inside.map(({ loss }) => loss)) - Math.max(...ends));
  const data = { from: from.label, to: to.label, ...facts, points, barrier };
  return {
    name: "interpolation",
    schema: interpolationSchema,
    data,
    meaning: summarizeInterpolation(data),
    figure: createInterpolationFigure(data),
  };
}

function summarizeInterpolation({ from, to, barrier, points }: InterpolationData): string {
  const worst = points.reduce((a, b) => (b.accuracy < a.accuracy ? b : a));
  const hill =
    barrier < 0.01
      ? "no hill lies between them, so they share a basin"
      : `a hill of ${formatNumber(barrier, 3)} nats lies between them`;
  return `From ${from} to ${to} ${hill}; accuracy is lowest (${formatPercent(worst.accuracy)}) at alpha ${formatNumber(worst.alpha, 2)}.`;
}

/** From least to most, but no narrower than a span: a flat line is to look flat. */
function computeAxisDomain(values: readonly number[], span: number): [number, number] {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const missing = Math.max(0, span - (high - low)) / 2;
  return [low - missing, high + missing];
}

function createInterpolationFigure({ from, to, task, split, examples, points }: InterpolationData): Figure {
  const low = Math.min(...points.map(({ alpha }) => alpha));
  const high = Math.max(...points.map(({ alpha }) => alpha));
  const ends = Plot.ruleX(
    [0, 1].filter((alpha) => alpha >= low && alpha <= high),
    { stroke: "currentColor", strokeOpacity: 0.35, strokeDasharray: "3 3" },
  );
  const panel = (
    title: string,
    unit: string,
    minSpan: number,
    values: readonly { alpha: number; y: number }[],
    color: string,
  ) =>
    plotPanel(title, {
      width: 380,
      height: 230,
      x: { label: "alpha", domain: [low, high], ticks: 6 },
      y: {
        label: unit,
        domain: computeAxisDomain(
          values.map(({ y }) => y),
          minSpan,
        ),
        grid: true,
        nice: true,
        ticks: 5,
      },
      marks: [
        ends,
        Plot.line(values, { x: "alpha", y: "y", stroke: color, strokeWidth: 2 }),
        Plot.dot(values, { x: "alpha", y: "y", fill: color, r: 1.8 }),
      ],
    });
  return {
    title: `Between ${from} and ${to}`,
    caption: `${from} stands at alpha 0, ${to} at alpha 1; between and beyond them all weights are mixed linearly. ${examples} examples of the ${split} split of ${task}.`,
    panels: [
      panel(
        "loss",
        "cross-entropy (nats)",
        0.1,
        points.map(({ alpha, loss }) => ({ alpha, y: loss })),
        getColor(0),
      ),
      panel(
        "accuracy",
        "accuracy (%)",
        10,
        points.map(({ alpha, accuracy }) => ({ alpha, y: 100 * accuracy })),
        getColor(1),
      ),
    ],
    columns: 2,
  };
}
