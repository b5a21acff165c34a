import { z } from "zod";
import { UserError } from "../errors.js";
import { formatNumber } from "../format.js";
import type { Weights } from "../nn/index.js";
import { free, Rng, scope } from "../tensor/index.js";
import { computeCosine, sampleDirection, shiftWeights } from "./directions.js";
import type { Figure } from "./figure.js";
import { computeFlatness, getCenterValue, type SurfaceGrid } from "./flatness.js";
import type { ResultCache } from "./result-cache.js";
import { renderContourPanel, renderSurfacePanel, type ValueRange } from "./surface-plots.js";
import type { Analysis } from "./write-analysis.js";

/** landscape.json: the loss around models, on the plane of two random directions. */
export const landscapeSchema = z.object({
  task: z.string(),
  split: z.string(),
  examples: z.number(),
  seed: z.number(),
  axis: z.array(z.number()),
  models: z.array(
    z.object({
      label: z.string(),
      /** Cosine of the two directions. */
      cosine: z.number(),
      /** The model's own loss. */
      centre: z.number(),
      curvature: z.number(),
      meanChange: z.number(),
      /** A row a value of beta, a column a value of alpha. */
      losses: z.array(z.array(z.number())),
    }),
  ),
});
export type LandscapeData = z.output<typeof landscapeSchema>;
export type LandscapeModel = LandscapeData["models"][number];

/** Places on an axis from -range to range; an odd number of them, so that the middle is 0. */
export function createAxis(range: number, points: number): number[] {
  if (!(range > 0 && range < Number.POSITIVE_INFINITY))
    throw new UserError(`--range: expected a number above 0, received ${range}; 0.25 shows what lies around a model`);
  if (!(points >= 3 && points % 2 === 1))
    throw new UserError(
      `--points: expected an odd number from 3, so that the model stands in the middle; received ${points}`,
    );
  const half = (points - 1) / 2;
  return Array.from({ length: points }, (_, i) => Number(((range * (i - half)) / half).toPrecision(12)));
}

/** Measures every point of a grid that the ledger does not have yet. */
export async function measureGrid(
  axis: readonly number[],
  measure: (alpha: number, beta: number) => number,
  cache: Pick<ResultCache<number>, "get" | "add">,
  name: string,
  onPoint?: () => void,
): Promise<SurfaceGrid> {
  const values: number[][] = [];
  for (const beta of axis) {
    const row: number[] = [];
    for (const alpha of axis) {
      const key = `${name} ${alpha} ${beta}`;
      let value = cache.get(key);
      if (value === undefined) {
        value = measure(alpha, beta);
        if (!Number.isFinite(value))
          throw new UserError(
            `the loss at alpha ${alpha}, beta ${beta} is ${value}: the model computes nothing there; give a smaller --range`,
          );
        cache.add(key, value);
        await new Promise(setImmediate);
      }
      row.push(value);
      onPoint?.();
    }
    values.push(row);
  }
  return { axis, values };
}

export interface LandscapeRequest {
  readonly label: string;
  /** What the ledger knows the surface by: the same only for the same weights, directions and examples. */
  readonly cacheKey: string;
  readonly weights: Weights;
  readonly loss: (weights: Weights) => number;
  readonly seed: number;
  readonly axis: readonly number[];
  readonly cache: Pick<ResultCache<number>, "get" | "add">;
  readonly onPoint?: () => void;
}

/** The loss around one model (ROSE eq. 6). */
export async function measureLandscape(request: LandscapeRequest): Promise<LandscapeModel> {
  const { label, cacheKey, weights, loss, seed, axis, cache, onPoint } = request;
  const rng = new Rng(seed).fork("landscape");
  const directions = [sampleDirection(weights, rng.fork("delta")), sampleDirection(weights, rng.fork("eta"))] as const;
  try {
    const [delta, eta] = directions;
    // The centre is the model itself: no rounding of 0 times a direction.
    const measure = (alpha: number, beta: number): number =>
      scope(() => loss(alpha === 0 && beta === 0 ? weights : shiftWeights(weights, delta, alpha, eta, beta)));
    const grid = await measureGrid(axis, measure, cache, cacheKey, onPoint);
    return {
      label,
      cosine: computeCosine(delta, eta),
      centre: getCenterValue(grid),
      ...computeFlatness(grid),
      losses: grid.values.map((row) => [...row]),
    };
  } finally {
    free([...directions]);
  }
}

export function createLandscapeAnalysis(data: LandscapeData): Analysis<LandscapeData> {
  return {
    name: "landscape",
    schema: landscapeSchema,
    data,
    meaning: summarizeLandscape(data),
    figure: createLandscapeFigure(data),
  };
}

function summarizeLandscape({ models }: LandscapeData): string {
  const sorted = [...models].sort((a, b) => a.meanChange - b.meanChange);
  const each = sorted.map(
    ({ label, meanChange, curvature }) =>
      `${label} ${formatNumber(meanChange, 3)} (curvature ${formatNumber(curvature, 3)})`,
  );
  const cosine = Math.max(...models.map((model) => Math.abs(model.cosine)));
  const lead = models.length > 1 ? `${sorted[0]!.label} lies flattest. ` : "";
  return `${lead}Mean change of the loss around the model, in nats: ${each.join(", ")}. The two directions are orthogonal up to a cosine of ${formatNumber(cosine, 2)}.`;
}

function createLandscapeFigure({ task, split, examples, axis, models }: LandscapeData): Figure {
  const all = models.flatMap(({ losses }) => losses.flat());
  const span: ValueRange = { low: Math.min(...all), high: Math.max(...all) };
  const levels = Array.from({ length: 14 }, (_, i) => span.low + ((span.high - span.low) * (i + 1)) / 15);
  const grids = models.map(({ losses }) => ({ axis, values: losses }));
  return {
    title: "The loss around each model",
    caption:
      `Cross-entropy at the weights plus alpha and beta times two random directions, normalised filter by filter; ${examples} examples of the ${split} split of ${task}. ` +
      "All panels share batch, directions, levels and colours; lighter is a larger loss, and closer lines are a steeper surface.",
    panels: [
      ...models.map(({ label, meanChange }, i) =>
        renderContourPanel(`${label}: mean change ${formatNumber(meanChange, 3)}`, grids[i]!, levels, span),
      ),
      ...models.map(({ label }, i) => renderSurfacePanel(label, grids[i]!, span)),
    ],
    columns: Math.min(4, models.length),
  };
}
