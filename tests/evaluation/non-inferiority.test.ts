import { expect, test } from "vitest";
import { Rng } from "../../src/base/rng.js";
import { computeDifferenceBounds, estimateNeededExamples, judgeDrop } from "../../src/evaluation/non-inferiority.js";
import { normalQuantile } from "../../src/evaluation/special-functions.js";
import { expectClose, float64 } from "../rounding.js";

/** Draws pairs: each example is only right for the first or the second model with some probability. */
function draw(rng: Rng, examples: number, first: number, second: number) {
  const values = Array.from({ length: examples }, () => rng.next());
  const onlyFirst = values.filter((value) => value < first).length;
  return { examples, onlyFirst, onlySecond: values.filter((value) => value >= first && value < first + second).length };
}

test("the bound of two models that never disagree is z² / (n + z²)", () => {
  const { low, high, difference } = computeDifferenceBounds({ onlyFirst: 0, onlySecond: 0, examples: 200 });
  expect(difference).toBe(0);
  const z = normalQuantile(0.95);
  expectClose(low, -(z ** 2) / (200 + z ** 2), float64);
  expectClose(high, -low, float64);
});

test("the bounds contain the true difference in 95% of samples on each side", () => {
  const rng = new Rng("tango");
  let [tooLow, tooHigh] = [0, 0];
  const samples = 2000;
  for (let i = 0; i < samples; i++) {
    const { low, high } = computeDifferenceBounds(draw(rng, 200, 0.04, 0.1));
    tooHigh += Number(low > -0.06);
    tooLow += Number(high < -0.06);
  }
  for (const rate of [tooHigh / samples, tooLow / samples]) {
    expect(rate).toBeGreaterThan(0.03);
    expect(rate).toBeLessThan(0.07);
  }
});

test("a model at the margin passes in at most 5% of samples, and the estimated number of examples gives 80% power", () => {
  const rng = new Rng("power");
  const passes = (examples: number, first: number, second: number): number =>
    Array.from({ length: 1000 }, () =>
      Number(judgeDrop(computeDifferenceBounds(draw(rng, examples, first, second)), 0.02) === "passed"),
    ).reduce((sum, value) => sum + value, 0) / 1000;
  expect(passes(400, 0.04, 0.06)).toBeLessThan(0.07);
  const needed = estimateNeededExamples({ onlyFirst: 10, onlySecond: 10, examples: 400 }, 0.02);
  const power = passes(needed, 0.025, 0.025);
  expect(power).toBeGreaterThan(0.72);
  expect(power).toBeLessThan(0.9);
});
