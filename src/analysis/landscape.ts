import { join } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import { formatWithInterval } from "../base/format.js";
import { openResultCache, type ResultCache } from "../base/result-cache.js";
import { bootstrapIntervals, type Interval, intervalSchema, mean } from "../evaluation/statistics.js";
import { hashModelFolder, type Model } from "../models/index.js";
import type { Weights } from "../nn/index.js";
import { hashExamples } from "../runs/environment.js";
import { free, keep, noGrad, operator, Rng, randn, scope, seedGenerator, type Tensor } from "../tensor/index.js";
import { getHeatColor } from "./colors.js";
import { defineAnalysis, findLabeledRuns, linspace, runsOption, sampleOptions } from "./define-analysis.js";
import type { Figure } from "./figure.js";
import {
  type ExampleLosses,
  loadFineTunedModel,
  loadInitialModel,
  loadSharedSample,
  withModel,
} from "./shared-sample.js";

/** A direction in the space of a model's weights. It contains only the weights that it changes. */
type Direction = ReadonlyMap<string, Tensor>;

/**
 * Samples a direction with filter-wise normalization (Li et al. 2018): each row of a matrix is
 * Gaussian and has the norm of the model's row. Vectors (biases, layer norms) do not change. The
 * sample depends only on the stream and the parameter's name, so compared models get the same
 * direction, each scaled to its weights. The caller frees it.
 */
export function sampleDirection(weights: Weights, rng: Rng): Direction {
  const direction = new Map<string, Tensor>();
  for (const [name, tensor] of weights) {
    if (tensor.shape.length < 2) continue;
    seedGenerator("cpu", rng.fork(name).seed());
    direction.set(
      name,
      noGrad(() =>
        scope(() => {
          const sample = randn(tensor.shape).toDevice(tensor.device);
          return keep(sample.mul(computeRowNorms(tensor).div(computeRowNorms(sample))));
        }),
      ),
    );
  }
  return direction;
}

function computeRowNorms(tensor: Tensor): Tensor {
  const inner = tensor.shape.slice(1).map((_, i) => i + 1);
  return tensor.detach().norm(inner, true);
}

// One pass over the weights each. These take most of the time of a point.
const addScaled = operator<(self: Tensor, other: Tensor, factor: number) => Tensor>("add", "Tensor");
const addScaled_ = operator<(self: Tensor, other: Tensor, factor: number) => void>("add_", "Tensor");

/** theta + alpha delta + beta eta (ROSE eq. 6). */
export function shiftWeights(weights: Weights, delta: Direction, alpha: number, eta: Direction, beta: number): Weights {
  return noGrad(() => {
    const moved = new Map(weights);
    for (const [name, direction] of delta) {
      const sum = addScaled(weights.get(name)!, direction, alpha);
      addScaled_(sum, eta.get(name)!, beta);
      moved.set(name, sum);
    }
    return moved;
  });
}

export function computeMeanChange(losses: readonly (readonly number[])[]): number {
  const middle = (losses.length - 1) / 2;
  const center = losses[middle]![middle]!;
  return mean(losses.flat().map((loss) => Math.abs(loss - center)));
}

/** 95% CI over the examples on one plane. Models with one random stream share their resamples. */
export function bootstrapMeanChange(surface: readonly (readonly SurfacePoint[])[], rng: Rng): Interval {
  const count = surface[0]![0]!.losses.length;
  const average = (losses: readonly number[], draws: Float64Array): number => {
    let sum = 0;
    for (let i = 0; i < count; i++) sum += draws[i]! * losses[i]!;
    return sum / count;
  };
  const [interval] = bootstrapIntervals(
    count,
    (draws) => [computeMeanChange(surface.map((row) => row.map(({ losses }) => average(losses, draws))))],
    rng,
  );
  return interval!;
}

/** landscape.json: the loss around models, on the plane of two random directions. */
const dataSchema = z.object({
  task: z.string(),
  split: z.string(),
  examples: z.number(),
  seed: z.number(),
  axis: z.array(z.number()),
  models: z.array(
    z.object({
      label: z.string(),
      meanChange: z.number(),
      /** 95% CI over the examples. Other directions may give another number. */
      interval: intervalSchema,
      /** Rows are values of beta, columns are values of alpha. */
      losses: z.array(z.array(z.number())),
    }),
  ),
});
type LandscapeData = z.output<typeof dataSchema>;

const oddCount = "expected an odd integer of at least 3, so that the model is in the middle";

export const landscape = defineAnalysis({
  name: "landscape",
  summary: "loss around models, along two random directions (ROSE figs. 1 and 2)",
  unit: "points",
  keeps: "Every finished point is kept.",
  options: {
    runs: runsOption("finished runs of one task, or folders of them"),
    pretrained: z.boolean().default(false).describe("include the weights before fine-tuning"),
    points: z
      .number()
      .int()
      .min(3, { error: oddCount })
      .max(501)
      .refine((count) => count % 2 === 1, { error: oddCount })
      .default(51)
      .describe("points per axis, an odd number"),
    range: z
      .number()
      .positive({ error: "expected a number above 0" })
      .default(0.25)
      .describe("length of each axis in both directions, relative to the norms of the weights"),
    ...sampleOptions(128),
  },
  data: dataSchema,
  async run(request, context) {
    const { seed, split, points } = request;
    const runs = await findLabeledRuns(request.runs);
    const axis = linspace(-request.range, request.range, points);
    const sample = await loadSharedSample(runs, request, context);
    const { task, examples, device } = sample;
    const first = runs[0]!.run;
    const sources: { label: string; load(): Promise<Model> }[] = runs.map(({ run, label }) => ({
      label,
      load: () => loadFineTunedModel(run, device),
    }));
    if (request.pretrained)
      sources.unshift({ label: "pre-trained", load: () => loadInitialModel(first, task.labels, device) });
    const total = sources.length * points * points;
    const models: LandscapeData["models"][number][] = [];
    let done = 0;
    const cache = openResultCache<SurfacePoint>(join(context.out, "landscape.points.jsonl"));
    try {
      for (const { label, load } of sources) {
        const measured = await withModel(sample, load, async (model, batch) =>
          measureLandscape({
            label,
            // The run's seed initializes a new head, and each run decides how it reads texts.
            cacheKey: [
              await hashModelFolder(model.folder),
              model.newlyInitialized.length > 0 ? first.config.seed : "",
              model.tokenization,
              model.maxLength,
              `seed ${seed} examples ${hashExamples(examples)}`,
              "each",
            ].join(" "),
            weights: model.weights,
            measure: batch.measure,
            seed,
            axis,
            cache,
            onPoint: () => context.advance(++done, total),
          }),
        );
        models.push(measured);
      }
    } finally {
      cache.close();
    }
    const data = { task: task.name, split, examples: examples.length, seed, axis, models };
    return { data, summary: summarizeLandscape(data), figure: await createLandscapeFigure(data) };
  },
});

export type SurfacePoint = Pick<ExampleLosses, "loss" | "losses">;
export async function measureSurface(
  axis: readonly number[],
  measure: (alpha: number, beta: number) => SurfacePoint,
  cache: Pick<ResultCache<SurfacePoint>, "get" | "add">,
  name: string,
  onPoint?: () => void | Promise<void>,
): Promise<readonly (readonly SurfacePoint[])[]> {
  const rows: SurfacePoint[][] = [];
  for (const beta of axis) {
    const row: SurfacePoint[] = [];
    for (const alpha of axis) {
      const key = `${name} ${alpha} ${beta}`;
      let point = cache.get(key);
      if (point === undefined) {
        const { loss, losses } = measure(alpha, beta);
        if (!Number.isFinite(loss))
          throw new UserError(`The loss at alpha ${alpha}, beta ${beta} is ${loss}. Use a smaller --range.`);
        point = { loss, losses };
        cache.add(key, point);
      }
      row.push(point);
      await onPoint?.();
    }
    rows.push(row);
  }
  return rows;
}

/** The loss around one model (ROSE eq. 6). */
export async function measureLandscape(options: {
  readonly label: string;
  /** Identifies the surface in the cache: equal only for equal weights, directions and examples. */
  readonly cacheKey: string;
  readonly weights: Weights;
  readonly measure: (weights: Weights) => SurfacePoint;
  readonly seed: number;
  readonly axis: readonly number[];
  readonly cache: Pick<ResultCache<SurfacePoint>, "get" | "add">;
  readonly onPoint?: () => Promise<void>;
}): Promise<LandscapeData["models"][number]> {
  const { label, cacheKey, weights, seed, axis, cache, onPoint } = options;
  const rng = new Rng(seed).fork("landscape");
  const [delta, eta] = [sampleDirection(weights, rng.fork("delta")), sampleDirection(weights, rng.fork("eta"))];
  try {
    // The center is the model itself, without rounding errors of 0 times a direction.
    const measure = (alpha: number, beta: number): SurfacePoint =>
      scope(() =>
        options.measure(alpha === 0 && beta === 0 ? weights : shiftWeights(weights, delta, alpha, eta, beta)),
      );
    const surface = await measureSurface(axis, measure, cache, cacheKey, onPoint);
    const losses = surface.map((row) => row.map(({ loss }) => loss));
    const interval = bootstrapMeanChange(surface, new Rng(seed).fork("flatness"));
    return { label, meanChange: computeMeanChange(losses), interval, losses };
  } finally {
    free([delta, eta]);
  }
}

/** Numbers without a ranking: one plane and one sample do not say which model is flatter. */
function summarizeLandscape({ models, examples }: LandscapeData): string {
  const each = models.map(({ label, meanChange, interval }) => `${label} ${formatWithInterval(meanChange, interval)}`);
  return (
    `Mean change of the loss around each model on one plane, in nats, over ${examples} examples ` +
    `(95% CI over the examples, for this plane only): ${each.join("; ")}.`
  );
}

const width = 292;
const formatTick = (value: number): string => String(Number(value.toPrecision(2)));

async function createLandscapeFigure({ task, split, examples, axis, models }: LandscapeData): Promise<Figure> {
  const { Plot, plotPanel } = await import("./plot-panel.js");
  const all = models.flatMap(({ losses }) => losses.flat());
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const thresholds = Array.from({ length: 15 }, (_, i) => low + ((high - low) * i) / 15);
  const end = axis.at(-1)!;
  // Plot places a value in the middle of its cell. The outer half of the border cells is no data.
  const edge = end + end / (axis.length - 1);
  const side = { domain: [-end, end], ticks: [-end, 0, end], tickFormat: formatTick, tickSize: 0 };
  const centered = { labelAnchor: "center", labelArrow: "none" } as const;
  const panels = models.map(({ label, meanChange, interval, losses }) =>
    plotPanel(`${label}: mean change ${formatWithInterval(meanChange, interval)}`, {
      width,
      height: 270,
      marginTop: 8,
      x: { ...side, ...centered, label: "alpha" },
      y: { ...side, ...centered, label: "beta" },
      color: { type: "linear", domain: [low, high], clamp: true, interpolate: getHeatColor },
      marks: [
        Plot.contour(losses.flat(), {
          width: axis.length,
          height: axis.length,
          x1: -edge,
          x2: edge,
          y1: -edge,
          y2: edge,
          clip: true,
          fill: Plot.identity,
          thresholds,
          stroke: "#ffffff",
          strokeOpacity: 0.55,
          strokeWidth: 0.7,
        }),
        Plot.dot([[0, 0]], { symbol: "plus", r: 4, stroke: "#ffffff" }),
      ],
    }),
  );
  const fractions = thresholds.map((_, i) => i / thresholds.length);
  const scale = plotPanel("cross-entropy (nats)", {
    width,
    height: 36,
    marginTop: 4,
    marginBottom: 20,
    x: { label: null, ticks: [0, 0.5, 1], tickFormat: (at: number) => formatTick(low + at * (high - low)) },
    y: { axis: null },
    marks: [
      Plot.barX(fractions, {
        x1: (at) => at,
        x2: (at) => at + 1 / fractions.length,
        insetRight: -0.5,
        fill: getHeatColor,
      }),
    ],
  });
  return {
    title: "Loss around each model",
    caption:
      "Cross-entropy at the weights plus alpha and beta times two random directions with filter-wise normalization; " +
      `${examples} examples of the ${split} split of ${task}. ` +
      "All panels have the same examples, directions, levels and colors. " +
      "In parentheses: 95% CI over the examples, for this plane only. " +
      "Closer lines are a steeper surface.",
    panels: [...panels, scale],
    columns: Math.min(4, models.length),
  };
}
