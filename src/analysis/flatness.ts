import { mean } from "../evaluation/statistics.js";

/** A square grid of values: rows are places on the second axis, columns on the first, both at `axis`. */
export interface SurfaceGrid {
  readonly axis: readonly number[];
  readonly values: readonly (readonly number[])[];
}

/** How flat a surface is around its centre: the smaller, the flatter. */
export interface Flatness {
  /** Mean of the two second derivatives at the centre, of the quadratic that fits the inner half best. */
  readonly curvature: number;
  /** How far the surface is from the height of its centre, above or below, on average over the grid: a slope is not flat. */
  readonly meanChange: number;
}

export function computeFlatness({ axis, values }: SurfaceGrid): Flatness {
  const center = getCenterValue({ axis, values });
  const reach = Math.max(...axis) / 2;
  const points = axis.flatMap((b, row) =>
    axis.flatMap((a, column) =>
      Math.abs(a) <= reach && Math.abs(b) <= reach ? [{ a, b, value: values[row]![column]! }] : [],
    ),
  );
  // Too coarse a grid has its centre alone within the inner half.
  const used =
    points.length >= 9
      ? points
      : axis.flatMap((b, row) => axis.map((a, column) => ({ a, b, value: values[row]![column]! })));
  return {
    curvature: computeMeanCurvature(used),
    meanChange: mean(values.flat().map((value) => Math.abs(value - center))),
  };
}

/** The value in the middle. */
export function getCenterValue({ values }: SurfaceGrid): number {
  const middle = (values.length - 1) / 2;
  return values[middle]![middle]!;
}

/**
 * The mean second derivative of the best fit c + g.x + x'Hx / 2. On a grid that is symmetric about 0, the slopes and the mixed term
 * fall out, and what is left is the regression of the value on a^2 + b^2 : (H11 + H22) / 4 is its slope.
 */
function computeMeanCurvature(points: readonly { a: number; b: number; value: number }[]): number {
  const squares = points.map(({ a, b }) => a * a + b * b);
  const values = points.map(({ value }) => value);
  const [center, level] = [mean(squares), mean(values)];
  const covariance = squares.reduce((sum, square, i) => sum + (square - center) * (values[i]! - level), 0);
  const spread = squares.reduce((sum, square) => sum + (square - center) ** 2, 0);
  return (2 * covariance) / spread;
}
