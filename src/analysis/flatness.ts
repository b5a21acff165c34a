import type { Rng } from "../base/rng.js";
import { bootstrapIntervals, type Interval, mean } from "../evaluation/statistics.js";
import type { SurfaceGrid } from "./surface-plots.js";

export function computeFlatness({ axis, values }: SurfaceGrid): {
  readonly curvature: number;
  readonly meanChange: number;
} {
  const center = getCenterValue({ axis, values });
  const reach = Math.max(...axis) / 2;
  const all = axis.flatMap((b, row) => axis.map((a, column) => ({ a, b, value: values[row]![column]! })));
  const inner = all.filter(({ a, b }) => Math.abs(a) <= reach && Math.abs(b) <= reach);
  return {
    // The inner half of a coarse grid is only its center.
    curvature: computeMeanCurvature(inner.length >= 9 ? inner : all),
    meanChange: mean(values.flat().map((value) => Math.abs(value - center))),
  };
}

/** 95% CIs over the examples on one plane. Models with one random stream share their resamples. */
export function bootstrapFlatness(
  axis: readonly number[],
  losses: readonly (readonly (readonly number[])[])[],
  rng: Rng,
): { readonly curvature: Interval; readonly meanChange: Interval } {
  const examples = losses[0]![0]!.length;
  const average = (each: readonly number[], draws: Float64Array): number => {
    let sum = 0;
    for (let i = 0; i < examples; i++) sum += draws[i]! * each[i]!;
    return sum / examples;
  };
  const [curvature, meanChange] = bootstrapIntervals(
    examples,
    (draws) => {
      const values = losses.map((row) => row.map((each) => average(each, draws)));
      const flatness = computeFlatness({ axis, values });
      return [flatness.curvature, flatness.meanChange];
    },
    rng,
  );
  return { curvature: curvature!, meanChange: meanChange! };
}

export function getCenterValue({ values }: SurfaceGrid): number {
  const middle = (values.length - 1) / 2;
  return values[middle]![middle]!;
}

/**
 * The mean second derivative of the best fit c + g.x + x'Hx / 2. On a grid that is symmetric about
 * 0, the slopes and the mixed term vanish. What is left is the regression of the value on a^2 +
 * b^2, with slope (H11 + H22) / 4.
 */
function computeMeanCurvature(points: readonly { a: number; b: number; value: number }[]): number {
  const squares = points.map(({ a, b }) => a * a + b * b);
  const values = points.map(({ value }) => value);
  const [meanSquare, meanValue] = [mean(squares), mean(values)];
  const covariance = squares.reduce((sum, square, i) => sum + (square - meanSquare) * (values[i]! - meanValue), 0);
  const variance = squares.reduce((sum, square) => sum + (square - meanSquare) ** 2, 0);
  return (2 * covariance) / variance;
}
