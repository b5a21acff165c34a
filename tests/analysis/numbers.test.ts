import { describe, expect, it } from "vitest";
import {
  alignment,
  averageWithinClasses,
  normalizeL2,
  squaredDistance,
  uniformity,
} from "../../src/analysis/alignment-uniformity.js";
import { computeDisagreementRates } from "../../src/analysis/consistency.js";
import { computeFlatness, getCenterValue } from "../../src/analysis/flatness.js";
import { projectToCircle } from "../../src/analysis/geometry.js";
import { linspace } from "../../src/analysis/interpolation.js";
import { createAxis, measureGrid } from "../../src/analysis/landscape.js";
import { tsne } from "../../src/analysis/tsne.js";
import { matthewsCorrelation } from "../../src/evaluation/metrics.js";
import { Rng } from "../../src/tensor/random.js";

/** The corners of a square on the unit circle. */
const square = [
  [1, 0],
  [0, 1],
  [-1, 0],
  [0, -1],
];

describe("alignment and uniformity", () => {
  it("are what the formulas give by hand", () => {
    expect(alignment(square, square)).toBe(0);
    // Each corner beside the next: a squared distance of 2; beside the opposite one: 4.
    expect(alignment(square, [...square.slice(1), square[0]!])).toBe(2);
    expect(alignment(square, [...square.slice(2), ...square.slice(0, 2)])).toBe(4);
    // Four pairs at a squared distance of 2, two at 4.
    expect(uniformity(square)).toBeCloseTo(Math.log((4 * Math.exp(-4) + 2 * Math.exp(-8)) / 6), 12);
    expect(uniformity([square[0]!, square[0]!, square[0]!])).toBe(0);
  });

  it("are lower where points lie more evenly, and within classes where only these are spread", () => {
    const narrow = [0, 0.1, 0.2, 0.3].map((angle) => [Math.cos(angle), Math.sin(angle)]);
    expect(uniformity(square)).toBeLessThan(uniformity(narrow));
    const labels = [0, 0, 1, 1];
    const pairs = averageWithinClasses(labels, (members) => uniformity(members.map((i) => square[i]!)));
    expect(pairs).toBeCloseTo(-4, 12);
    expect(averageWithinClasses([0, 0, 1], (members) => members.length)).toBe(2);
  });

  it("takes any row to the sphere, and leaves nothing to divide by 0", () => {
    expect([...normalizeL2([3, 4])]).toEqual([0.6, 0.8]);
    expect([...normalizeL2([0, 0])]).toEqual([0, 0]);
  });
});

describe("t-SNE", () => {
  const rng = new Rng("clusters");
  const rows = Array.from({ length: 60 }, (_, i) =>
    Array.from({ length: 10 }, (_, axis) => (axis === i % 3 ? 8 : 0) + rng.normal()),
  );

  it("keeps three well-separated clusters apart", () => {
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

  it("draws the same picture from the same stream, and another from another", () => {
    const draw = (seed: number) => tsne(rows.slice(0, 12), new Rng(seed), { iterations: 20 });
    expect(draw(3)).toEqual(draw(3));
    expect(draw(3)).not.toEqual(draw(4));
  });

  it("onto the circle: angles around the middle, in turns", () => {
    expect(projectToCircle([[7, 5], [5, 7], [3, 5], [5, 3]])).toEqual([0, 0.25, 0.5, 0.75]); // biome-ignore format: one line
  });
});

describe("a loss surface", () => {
  const noLedger = { get: () => undefined, add: () => undefined };
  /** 0.7 + (3 alpha^2 + 8 beta^2) / 2 + a slope and a mixed term: the curvatures are 3 and 8. */
  const bowl = (alpha: number, beta: number): number =>
    0.7 + (3 * alpha ** 2 + 8 * beta ** 2) / 2 + 0.2 * alpha - 0.1 * beta + 0.5 * alpha * beta;

  it.each([3, 5, 51])("of a quadratic bowl has its curvature, on %i points an axis", async (points) => {
    const grid = await measureGrid(createAxis(0.25, points), bowl, noLedger, "bowl");
    expect(getCenterValue(grid)).toBeCloseTo(0.7, 12);
    expect(computeFlatness(grid).curvature).toBeCloseTo((3 + 8) / 2, 8);
  });

  it("changes on average by as much as a bowl without slope rises", async () => {
    const grid = await measureGrid(
      createAxis(0.25, 51),
      (alpha, beta) => 0.7 + (3 * alpha ** 2 + 8 * beta ** 2) / 2,
      noLedger,
      "bowl",
    );
    const squares = grid.axis.reduce((sum, value) => sum + value ** 2, 0) / 51;
    expect(computeFlatness(grid).meanChange).toBeCloseTo(((3 + 8) / 2) * squares, 8);
  });

  it("that slopes is not flat, though its rises and falls cancel", async () => {
    const slope = await measureGrid([-1, 0, 1], (alpha) => 3 * alpha, noLedger, "slope");
    expect(computeFlatness(slope).meanChange).toBeCloseTo(2, 12);
  });

  it("has alpha along the columns and beta along the rows", async () => {
    const { values } = await measureGrid([-1, 0, 1], (alpha, beta) => alpha + 10 * beta, noLedger, "plane");
    expect(values).toEqual([[-11, -10, -9], [-1, 0, 1], [9, 10, 11]]); // biome-ignore format: as it lies
  });

  it("is refused where there is no loss, and says where", async () => {
    const cliff = (alpha: number): number => (alpha > 0 ? Number.NaN : 1);
    await expect(measureGrid([-1, 0, 1], cliff, noLedger, "cliff")).rejects.toThrow(
      /loss at alpha 1, beta -1 is NaN.*smaller --range/,
    );
  });

  it("has its axis meet 0 and both ends exactly", () => {
    const axis = createAxis(0.25, 51);
    expect([axis[0], axis[25], axis[50], axis[1]]).toEqual([-0.25, 0, 0.25, -0.24]);
    const line = linspace(-0.5, 1.5, 51);
    expect([line[0], line[25], line[50]]).toEqual([-0.5, 0.5, 1.5]);
    expect(linspace(-0.5, 1.5, 5)).toEqual([-0.5, 0, 0.5, 1, 1.5]);
  });
});

describe("scores", () => {
  it("Matthews: 1 for the linguistic feature, -1 for the surface feature, 0 for neither", () => {
    const labels = [1, 1, 0, 0];
    expect(matthewsCorrelation(labels, labels)).toBe(1);
    expect(matthewsCorrelation([0, 0, 1, 1], labels)).toBe(-1);
    expect(matthewsCorrelation([1, 0, 1, 0], labels)).toBe(0);
    expect(matthewsCorrelation([1, 1, 1, 0], labels)).toBeCloseTo(1 / Math.sqrt(3), 12);
  });

  it("consistency counts examples, not steps, over the first steps", () => {
    const steps = [
      { step: 1, share: 1, examples: 10 },
      { step: 2, share: 0, examples: 30 },
      { step: 3, share: 0.5, examples: 40 },
    ];
    expect(computeDisagreementRates(steps, [1, 2, 3, 4])).toEqual([
      { steps: 1, share: 1 },
      { steps: 2, share: 0.25 },
      { steps: 3, share: 0.375 },
    ]);
  });
});
