import { describe, expect, it } from "vitest";
import { computeDisagreementRates } from "../../src/analysis/consistency.js";
import { linspace } from "../../src/analysis/define-analysis.js";
import { measureFeatures, normalizeL2, projectToCircle } from "../../src/analysis/geometry.js";
import { bootstrapMeanChange, computeMeanChange, measureSurface } from "../../src/analysis/landscape.js";
import { squaredDistance, tsne } from "../../src/analysis/tsne.js";
import { Rng } from "../../src/base/rng.js";
import { matthewsCorrelation } from "../../src/evaluation/metrics.js";
import { expectClose, float64 } from "../rounding.js";

/** The corners of a square on the unit circle. */
const square = [
  [1, 0],
  [0, 1],
  [-1, 0],
  [0, -1],
];

describe("alignment and uniformity", () => {
  const measure = (own: number[][], theirs = own, labels = own.map(() => 0)) =>
    measureFeatures(own, theirs, labels, new Rng(0));

  it("equal the formulas computed by hand", () => {
    expect(measure(square).overall.alignment).toBe(0);
    // The squared distance of a corner to the next one is 2, to the opposite one 4.
    expect(measure(square, [...square.slice(1), square[0]!]).overall.alignment).toBe(2);
    expect(measure(square, [...square.slice(2), ...square.slice(0, 2)]).overall.alignment).toBe(4);
    // Four pairs have a squared distance of 2, two pairs of 4.
    const expected = Math.log((4 * Math.exp(-4) + 2 * Math.exp(-8)) / 6);
    expectClose(measure(square).overall.uniformity, expected, float64);
    expect(measure([square[0]!, square[0]!, square[0]!]).overall.uniformity).toBe(0);
  });

  it("uniformity is lower for evenly spread points", () => {
    const narrow = [0, 0.1, 0.2, 0.3].map((angle) => [Math.cos(angle), Math.sin(angle)]);
    expect(measure(square).overall.uniformity).toBeLessThan(measure(narrow).overall.uniformity);
  });

  it("are averaged over the classes that have at least two examples", () => {
    expectClose(measure(square, square, [0, 0, 1, 1]).withinClass.uniformity, -4, float64);
    const moved = [square[1]!, square[0]!, square[0]!, square[0]!];
    // The distances in the first class are 2 and 2, in the second 4 and 2. The third has one example.
    expect(measure([...square, [1, 0]], [...moved, [0, 1]], [0, 0, 1, 3, 1]).withinClass.alignment).toBe(2.5);
  });

  it("95% CIs cover the numbers, and shrink with more examples", () => {
    const rng = new Rng("points");
    const draw = (count: number): Float64Array[] =>
      Array.from({ length: count }, () => normalizeL2([rng.normal(), rng.normal(), rng.normal()]));
    const measureWidth = (count: number): number => {
      const [own, theirs, labels] = [draw(count), draw(count), Array.from({ length: count }, (_, i) => i % 2)];
      const { overall, withinClass, intervals } = measureFeatures(own, theirs, labels, new Rng(0));
      for (const [value, { low, high }] of [
        [overall.alignment, intervals.overall.alignment],
        [overall.uniformity, intervals.overall.uniformity],
        [withinClass.uniformity, intervals.withinClass.uniformity],
      ] as const) {
        expect(low).toBeLessThan(value);
        expect(high).toBeGreaterThan(value);
      }
      return intervals.overall.alignment.high - intervals.overall.alignment.low;
    };
    expect(measureWidth(160)).toBeLessThan(0.75 * measureWidth(40));
  });

  it("normalizeL2 scales to length 1 and keeps a zero vector", () => {
    expect([...normalizeL2([3, 4])]).toEqual([0.6, 0.8]);
    expect([...normalizeL2([0, 0])]).toEqual([0, 0]);
  });
});

describe("t-SNE", () => {
  const rng = new Rng("clusters");
  const rows = Array.from({ length: 60 }, (_, i) =>
    Array.from({ length: 10 }, (_, axis) => (axis === i % 3 ? 8 : 0) + rng.normal()),
  );

  it("separates three clusters", () => {
    const places = tsne(rows, new Rng(1), { perplexity: 10, iterations: 500 });
    const own = (i: number, j: number): boolean => i % 3 === j % 3;
    for (const [i, place] of places.entries()) {
      const distances = places.map((other, j) => ({
        j,
        distance: i === j ? Number.POSITIVE_INFINITY : squaredDistance(place, other),
      }));
      const nearest = distances.toSorted((a, b) => a.distance - b.distance).slice(0, 10);
      expect(nearest.every(({ j }) => own(i, j))).toBe(true);
    }
  });

  it("depends only on the random stream", () => {
    const embed = (seed: number) => tsne(rows.slice(0, 12), new Rng(seed), { iterations: 20 });
    expect(embed(3)).toEqual(embed(3));
    expect(embed(3)).not.toEqual(embed(4));
  });

  it("projectToCircle returns angles around the center, in turns", () => {
    expect(projectToCircle([[7, 5], [5, 7], [3, 5], [5, 3]])).toEqual([0, 0.25, 0.5, 0.75]); // biome-ignore format: one line
  });
});

describe("loss surfaces", () => {
  const noCache = { get: () => undefined, add: () => undefined };
  const measureLosses = async (axis: number[], loss: (alpha: number, beta: number) => number) => {
    const surface = await measureSurface(
      axis,
      (a, b) => ({ loss: loss(a, b), losses: [loss(a, b)] }),
      noCache,
      "plane",
    );
    return surface.map((row) => row.map((point) => point.loss));
  };

  it("the mean change of a bowl without slope equals its mean", async () => {
    const axis = linspace(-0.25, 0.25, 51);
    const losses = await measureLosses(axis, (alpha, beta) => 0.7 + (3 * alpha ** 2 + 8 * beta ** 2) / 2);
    const squares = axis.reduce((sum, value) => sum + value ** 2, 0) / 51;
    expectClose(computeMeanChange(losses), ((3 + 8) / 2) * squares, { ...float64, terms: 51 * 51, scale: 0.7 });
  });

  it("a slope is not flat", async () => {
    expect(computeMeanChange(await measureLosses([-1, 0, 1], (alpha) => 3 * alpha))).toBe(2);
  });

  it("the 95% CI comes from the examples: equal examples leave no doubt, different ones do", () => {
    const axis = [-1, 0, 1];
    const createSurface = (curvatures: readonly number[]) =>
      axis.map((beta) =>
        axis.map((alpha) => {
          const losses = curvatures.map((each) => (each * (alpha ** 2 + beta ** 2)) / 2);
          return { loss: 0, losses };
        }),
      );
    // The mean of (alpha^2 + beta^2) / 2 over the nine points is 2/3.
    expectClose(bootstrapMeanChange(createSurface([4, 4, 4, 4]), new Rng(0)), { low: 8 / 3, high: 8 / 3 }, float64);
    const { low, high } = bootstrapMeanChange(createSurface([0, 2, 6, 8]), new Rng(0));
    expect(low).toBeLessThan(4 / 3);
    expect(high).toBeGreaterThan(4);
  });

  it("columns are alpha, rows are beta", async () => {
    const losses = await measureLosses([-1, 0, 1], (alpha, beta) => alpha + 10 * beta);
    expect(losses).toEqual([[-11, -10, -9], [-1, 0, 1], [9, 10, 11]]); // biome-ignore format: a grid
  });

  it("a loss that is not finite is rejected with its position", async () => {
    const cliff = (alpha: number): number => (alpha > 0 ? Number.NaN : 1);
    await expect(measureLosses([-1, 0, 1], cliff)).rejects.toThrow(
      /loss at alpha 1, beta -1 is NaN\. Use a smaller --range/,
    );
  });

  it("axes contain 0 and both ends exactly", () => {
    const axis = linspace(-0.25, 0.25, 51);
    expect([axis[0], axis[25], axis[50], axis[1]]).toEqual([-0.25, 0, 0.25, -0.24]);
    const line = linspace(-0.5, 1.5, 51);
    expect([line[0], line[25], line[50]]).toEqual([-0.5, 0.5, 1.5]);
    expect(linspace(-0.5, 1.5, 5)).toEqual([-0.5, 0, 0.5, 1, 1.5]);
  });
});

describe("rates and correlations", () => {
  it("the Matthews correlation is 1 for the linguistic feature, -1 for the surface feature, 0 for neither", () => {
    const labels = [1, 1, 0, 0];
    expect(matthewsCorrelation(labels, labels)).toBe(1);
    expect(matthewsCorrelation([0, 0, 1, 1], labels)).toBe(-1);
    expect(matthewsCorrelation([1, 0, 1, 0], labels)).toBe(0);
    expectClose(matthewsCorrelation([1, 1, 1, 0], labels), 1 / Math.sqrt(3), float64);
  });

  it("disagreement rates are weighted by the examples of each step", () => {
    const steps = [
      { step: 1, rate: 1, examples: 10 },
      { step: 2, rate: 0, examples: 30 },
      { step: 3, rate: 0.5, examples: 40 },
    ];
    expect(computeDisagreementRates(steps, [1, 2, 3, 4])).toEqual([
      { steps: 1, rate: 1 },
      { steps: 2, rate: 0.25 },
      { steps: 3, rate: 0.375 },
    ]);
  });
});
