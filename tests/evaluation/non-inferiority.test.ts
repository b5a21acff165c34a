import { expect, test } from "vitest";
import { Rng } from "../../src/base/rng.js";
import { computeDifferenceBounds, estimateNeededExamples, judgeDrop } from "../../src/evaluation/non-inferiority.js";
import { logGamma } from "../../src/evaluation/special-functions.js";
import { expectClose, float64 } from "../rounding.js";

/** Draws pairs: each example is only right for the first or the second model with some probability. */
function draw(rng: Rng, examples: number, first: number, second: number) {
  const values = Array.from({ length: examples }, () => rng.next());
  const onlyFirst = values.filter((value) => value < first).length;
  return { examples, onlyFirst, onlySecond: values.filter((value) => value >= first && value < first + second).length };
}

/** The probability of each count of losses and wins in a sample, except for improbable ones. */
function* enumerateCounts(examples: number, first: number, second: number) {
  const logFactorial = (count: number): number => logGamma(count + 1);
  const logPower = (base: number, exponent: number): number => (exponent === 0 ? 0 : exponent * Math.log(base));
  for (let onlyFirst = 0; onlyFirst <= (first === 0 ? 0 : examples); onlyFirst++)
    for (let onlySecond = 0; onlySecond <= examples - onlyFirst; onlySecond++) {
      const rest = examples - onlyFirst - onlySecond;
      const log =
        logFactorial(examples) -
        logFactorial(onlyFirst) -
        logFactorial(onlySecond) -
        logFactorial(rest) +
        logPower(first, onlyFirst) +
        logPower(second, onlySecond) +
        logPower(1 - first - second, rest);
      if (log > -20) yield { counts: { onlyFirst, onlySecond, examples }, probability: Math.exp(log) };
    }
}

test("at the margin, each verdict is wrong in at most 5% of all samples, also with only losses", () => {
  let largest = 0;
  for (const examples of [45, 134, 200])
    for (const margin of [0.02, 0.05, 0.1])
      for (const first of [0, 0.005, 0.05]) {
        const rates = { passed: 0, regressed: 0, unresolved: 0 };
        for (const { counts, probability } of enumerateCounts(examples, first, first + margin))
          rates[judgeDrop(computeDifferenceBounds(counts), margin)] += probability;
        expect(rates.passed, `passed: ${examples}, ${margin}, ${first}`).toBeLessThanOrEqual(0.05);
        expect(rates.regressed, `regressed: ${examples}, ${margin}, ${first}`).toBeLessThanOrEqual(0.05);
        largest = Math.max(largest, rates.passed, rates.regressed);
      }
  // The bounds are not wider than needed.
  expect(largest).toBeGreaterThan(0.04);
});

test("59 texts without a loss show that a model is at most 5 points worse, and 58 do not", () => {
  const judge = (examples: number) =>
    judgeDrop(computeDifferenceBounds({ onlyFirst: 0, onlySecond: 0, examples }), 0.05);
  expect([58, 59].map(judge)).toEqual(["unresolved", "passed"]);
});

test("the bound of two models that never disagree is 1 - 0.05^(1 / n)", () => {
  const { low, high, difference } = computeDifferenceBounds({ onlyFirst: 0, onlySecond: 0, examples: 200 });
  expect(difference).toBe(0);
  expectClose(low, -(1 - 0.05 ** (1 / 200)), float64);
  expectClose(high, -low, float64);
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
