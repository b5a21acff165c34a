import { expect, test } from "vitest";
import { computeSumTail, type IntegerDistribution } from "../../src/evaluation/sum-tail.js";

/** The tail by adding one integer after the other. */
function addUp({ values, probabilities }: IntegerDistribution, draws: number, limit: number): number {
  let sums = new Map([[0, 1]]);
  for (let draw = 0; draw < draws; draw++) {
    const next = new Map<number, number>();
    for (const [sum, mass] of sums)
      for (const [i, value] of values.entries())
        next.set(sum + value, (next.get(sum + value) ?? 0) + mass * probabilities[i]!);
    sums = next;
  }
  return [...sums].filter(([sum]) => sum <= limit).reduce((total, [, mass]) => total + mass, 0);
}

/** The relative error is below e^-14 by construction, and rounding is far smaller. */
const expectTail = (distribution: IntegerDistribution, draws: number, limit: number): void => {
  const expected = addUp(distribution, draws, limit);
  const found = computeSumTail(distribution, draws, limit);
  expect(Math.abs(found - expected)).toBeLessThanOrEqual(Math.exp(-10) * expected);
};

test.each([
  [{ values: [-1, 0, 1], probabilities: [0.1, 0.5, 0.4] }, [20, 100]],
  [{ values: [-1, 1], probabilities: [0.3, 0.7] }, [30, 61]],
  // Sums that are all even: equal seeds.
  [{ values: [-2, 0, 2], probabilities: [0.2, 0.3, 0.5] }, [40]],
  [{ values: [3, -5, 1, 0, 2], probabilities: [0.3, 0.05, 0.2, 0.25, 0.2] }, [50, 90]],
  [{ values: [0, 1, 4], probabilities: [0.7, 0.2, 0.1] }, [30]],
] as const)("%j", (distribution, counts) => {
  for (const draws of counts)
    for (const limit of [-9, -1, 0, 1, 5, 17, 60, 400]) expectTail(distribution, draws, limit);
});

test("a sum that is always too large or too small is certain", () => {
  const positive = { values: [1, 2], probabilities: [0.5, 0.5] };
  expect(computeSumTail(positive, 50, 0)).toBe(0);
  expect(computeSumTail(positive, 50, 100)).toBe(1);
  expect(computeSumTail(positive, 50, 50)).toBe(0.5 ** 50);
});

test("tails that no resample would reach keep their relative accuracy", () => {
  // 300 draws, of which more than half would have to be -1.
  const distribution = { values: [-1, 1], probabilities: [0.05, 0.95] };
  expectTail(distribution, 300, 0);
});
