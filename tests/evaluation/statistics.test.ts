import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Rng } from "../../src/base/rng.js";
import { computeDifferenceBounds, estimateNeededExamples, judgeDrop } from "../../src/evaluation/non-inferiority.js";
import { chiSquareTail, logGamma, normalQuantile, studentTail } from "../../src/evaluation/special-functions.js";
import {
  bootstrapPairs,
  describePower,
  holmCorrection,
  type ModelPair,
  mcNemar,
  mean,
  median,
  minDetectableDifference,
  pairedBootstrap,
  pairedTTest,
  quantile,
  standardDeviation,
  wilsonInterval,
} from "../../src/evaluation/statistics.js";
import { computeSumTail, type IntegerDistribution } from "../../src/evaluation/sum-tail.js";
import { expectClose, float64, matchClose } from "../rounding.js";

// Expected values are from SciPy 1.x; the comment next to each has the expression.
describe("special functions", () => {
  test("log gamma", () => {
    // special.gammaln([0.3, 1, 5.5, 200])
    expectClose([0.3, 1, 5.5].map(logGamma), [1.0957979948180756, 0, 3.9578139676187165], float64);
    expectClose(logGamma(200), 857.9336698258574, float64);
  });

  test("tails", () => {
    expectClose(studentTail(2.5, 7), 0.020496109292876444, float64); // stats.t.sf(2.5, 7)
    expectClose(studentTail(-1, 3.3), 0.8075576547714878, float64); // stats.t.sf(-1, 3.3)
    expectClose(studentTail(12, 4), 0.0001382142742514865, float64); // stats.t.sf(12, 4)
    expectClose(chiSquareTail(4.05), 0.04417134490844271, float64); // stats.chi2.sf(4.05, 1)
    expectClose(chiSquareTail(1.96 ** 2), 2 * 0.024997895148220435, float64); // 2 * stats.norm.sf(1.96)
    // 2 * stats.norm.sf(6). The exponent of e^-18 is a square of size 18.
    expectClose(chiSquareTail(36), 2 * 9.865876450376946e-10, { ...float64, terms: 2 * 18 });
    expectClose(normalQuantile(0.975), 1.959963984540054, float64); // stats.norm.ppf(.975)
    expectClose(normalQuantile(0.8), 0.8416212335729143, float64); // stats.norm.ppf(.8)
  });
});

describe("simple statistics", () => {
  const values = [3, 1, 4, 1, 5, 9, 2, 6];
  test("mean, standard deviation, median and quantile", () => {
    expect(mean(values)).toBe(3.875);
    expectClose(standardDeviation(values), 2.748376143938713, float64); // np.std(values, ddof=1)
    expect(median(values)).toBe(3.5); // np.quantile(values, .5)
    expectClose(quantile(values, 0.95), 7.95, float64); // np.quantile(values, .95)
    expect(quantile([7], 0.3)).toBe(7);
    expect(values).toEqual([3, 1, 4, 1, 5, 9, 2, 6]);
  });
});

describe("wilsonInterval", () => {
  test("matches SciPy", () => {
    // stats.binomtest(40, 100).proportion_ci(method="wilson")
    expect(wilsonInterval(40, 100)).toEqual({
      low: matchClose(0.3094012864324589, float64),
      high: matchClose(0.4979974132089382, float64),
    });
    // stats.binomtest(0, 20).proportion_ci(method="wilson")
    expect(wilsonInterval(0, 20)).toEqual({ low: 0, high: matchClose(0.16112515805281935, float64) });
    // stats.binomtest(78, 78).proportion_ci(.99, "wilson")
    expect(wilsonInterval(78, 78, 0.99)).toEqual({ low: matchClose(0.9216056630600153, float64), high: 1 });
    expect(wilsonInterval(0, 0)).toEqual({ low: 0, high: 1 });
  });

  test("contains the proportion and stays within 0 and 1", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 500 }), fc.double({ min: 0, max: 1, noNaN: true }), (count, proportion) => {
        const successes = Math.round(count * proportion);
        const { low, high } = wilsonInterval(successes, count);
        expect(low).toBeGreaterThanOrEqual(0);
        expect(high).toBeLessThanOrEqual(1);
        expect(low <= successes / count && successes / count <= high).toBe(true);
      }),
    );
  });
});

describe("significance tests", () => {
  const first = [91.2, 90.8, 92.1, 91.5, 90.9];
  const second = [90.1, 90.9, 91.0, 90.7, 90.2];

  test("paired t-test", () => {
    // stats.ttest_rel(first, second, alternative="greater")
    expect(pairedTTest(first, second)).toEqual({
      t: matchClose(3.272727272727241, float64),
      degrees: 4,
      p: matchClose(0.015355093358354081, float64),
    });
    expectClose(pairedTTest(second, first).p, 1 - 0.015355093358354081, float64);
    expect(() => pairedTTest([1], [1, 2])).toThrow("expected pairs");
  });

  test("a t-test without variance is a sign test", () => {
    // Two seeds with exactly the same difference are weak evidence.
    expect(pairedTTest([2, 2], [1, 1]).p).toBe(0.25);
    expect(pairedTTest([1, 1], [2, 2]).p).toBe(0.75);
    // Equal except for rounding errors: 0.901 - 0.9 is not 0.801 - 0.8.
    expect(pairedTTest([0.901, 0.801], [0.9, 0.8]).p).toBe(0.25);
    expect(pairedTTest([1, 2], [1, 2])).toMatchObject({ t: 0, p: 0.5 });
  });

  test("McNemar's test", () => {
    // stats.binomtest(5, 20, .5).pvalue; (|5 - 15| - 1)^2 / 20; stats.chi2.sf(4.05, 1)
    expect(mcNemar(5, 15)).toEqual({
      exact: matchClose(0.04138946533203125, float64),
      chiSquared: 4.05,
      p: matchClose(0.04417134490844271, float64),
    });
    expectClose(mcNemar(0, 3).exact, 0.25, float64); // stats.binomtest(0, 3, .5).pvalue
    // stats.binomtest(40, 100, .5).pvalue. The exponent of each term is a sum of logarithms up to log 100!.
    expectClose(mcNemar(60, 40).exact, 0.05688793364098089, { ...float64, terms: 4 * logGamma(101) });
    expect(mcNemar(0, 0)).toEqual({ exact: 1, chiSquared: 0, p: 1 });
    expect(mcNemar(7, 7).exact).toBe(1);
  });

  test("Holm's correction keeps the order of the p-values", () => {
    // multipletests([.01, .04, .03, .005], method="holm") -> .03, .06, .06, .02
    expect(holmCorrection([0.01, 0.04, 0.03, 0.005])).toEqual(
      [0.03, 0.06, 0.06, 0.02].map((value) => matchClose(value, float64)),
    );
    expect(holmCorrection([0.6, 0.9])).toEqual([1, 1]);
    expect(holmCorrection([])).toEqual([]);
  });
});

/** How far the ends of a 95% CI of this many resamples are from those of all resamples: 4 standard errors. */
const computeEndError = (standardError: number, samples: number): number =>
  (4 * standardError * Math.sqrt((0.025 * 0.975) / samples)) / 0.05844; // stats.norm.pdf(1.96)

describe("pairedBootstrap", () => {
  const rows = (seeds: number, examples: number, accuracy: number, rng: Rng) =>
    Array.from({ length: seeds }, () => Array.from({ length: examples }, () => Number(rng.next() < accuracy)));

  test("matches the normal approximation for one seed", () => {
    // Differences: 60 times +1, 40 times 0: mean 0.6, standard error sqrt(0.24 / 100) = 0.049.
    const first = [Array.from({ length: 100 }, (_, i) => Number(i < 60))];
    const second = [new Array<number>(100).fill(0)];
    const found = pairedBootstrap(first, second, new Rng(1));
    expectClose(found.difference, 0.6, float64);
    // Means of 100 differences are multiples of 0.01.
    const endError = computeEndError(0.049, 10_000) + 0.01 / 2;
    expect(Math.abs(found.low - (0.6 - 1.96 * 0.049))).toBeLessThan(endError);
    expect(Math.abs(found.high - (0.6 + 1.96 * 0.049))).toBeLessThan(endError);
    expect(found.p).toBe(2 / 100_001);
  });

  test("never has an interval of width 0: models that agree on 40 examples may differ on others", () => {
    const same = [Array.from({ length: 40 }, (_, i) => i % 2)];
    const { difference, low, high, p } = pairedBootstrap(same, same, new Rng(0), 200);
    const { high: unseen } = wilsonInterval(0, 40);
    expect([difference, low, high, p]).toEqual([0, -unseen, unseen, 1]);
    const best = pairedBootstrap([new Array(40).fill(1)], [new Array(40).fill(0)], new Rng(0), 200);
    expect([best.difference, best.low, best.high]).toEqual([1, 1 - unseen, 1]);
  });

  test("estimates small p-values from more resamples, and leaves the interval as it is", () => {
    const [better, worse] = [rows(5, 100, 0.7, new Rng(4)), rows(5, 100, 0.2, new Rng(5))];
    const found = pairedBootstrap(better, worse, new Rng(1), 100);
    expect(found.p).toBe(2 / 1001);
    // An own bootstrap with the same random numbers.
    const rng = new Rng(1);
    const means = Array.from({ length: 100 }, () => {
      const seeds = better.map(() => rng.integer(5));
      const draws = better[0]!.map(() => rng.integer(100));
      const sum = (all: number[][]) =>
        seeds.flatMap((seed) => draws.map((i) => all[seed]![i]!)).reduce((a, b) => a + b);
      return (sum(better) - sum(worse)) / 500;
    });
    expectClose(found.low, quantile(means, 0.025), float64);
    expectClose(found.high, quantile(means, 0.975), float64);
    // With more than six seeds, the sums are not remembered.
    const many = pairedBootstrap(rows(7, 30, 0.5, new Rng(6)), rows(7, 30, 0.5, new Rng(7)), new Rng(1), 300);
    expect(many.p).toBeGreaterThan(0.01);
  });

  test("covers the random variation of the seeds", () => {
    const seeds = [1, 0, 1, 0, 1, 0].map((value) => new Array<number>(50).fill(value));
    const found = pairedBootstrap(
      seeds,
      seeds.map((row) => row.map(() => 0.5)),
      new Rng(2),
      2000,
    );
    expect(found.difference).toBe(0);
    expect(found.p).toBeGreaterThan(0.5);
    expect(found.high - found.low).toBeGreaterThan(0.5);
  });

  test("has about the nominal coverage", () => {
    const rng = new Rng(3);
    let covered = 0;
    for (let trial = 0; trial < 200; trial++) {
      const { low, high } = pairedBootstrap(rows(3, 60, 0.7, rng), rows(3, 60, 0.6, rng), rng, 200);
      covered += Number(low <= 0.1 && 0.1 <= high);
    }
    expect(covered).toBeGreaterThan(180);
  });

  test("pairs of one size share the resamples, and each has the result that it has alone", () => {
    const first = rows(7, 40, 0.8, new Rng(1));
    // The last one is far worse, so its p-value takes more resamples.
    const pairs = [0.8, 0.7, 0.1].map(
      (accuracy, i): ModelPair => [first, rows(7, 40, accuracy, new Rng(`other ${i}`))],
    );
    const alone = pairs.map(([one, other]) => pairedBootstrap(one, other, new Rng(2), 100));
    expect(bootstrapPairs(pairs, new Rng(2), 100)).toEqual(alone);
    expect(() =>
      bootstrapPairs([pairs[0]!, [rows(7, 9, 1, new Rng(3)), rows(7, 9, 1, new Rng(3))]], new Rng(2)),
    ).toThrow("the same numbers of seeds and examples");
  });

  test("is deterministic for a seed, and requires pairs", () => {
    const [a, b] = [rows(2, 30, 0.5, new Rng(4)), rows(2, 30, 0.5, new Rng(5))];
    expect(pairedBootstrap(a, b, new Rng(6), 100)).toEqual(pairedBootstrap(a, b, new Rng(6), 100));
    expect(() => pairedBootstrap(a, b.slice(1), new Rng(6))).toThrow("expected the same seeds");
    expect(() => pairedBootstrap(a, [b[0]!, [1]], new Rng(6))).toThrow("expected the same seeds");
  });
});

describe("statistical power", () => {
  test("describePower names the smallest detectable difference", () => {
    // (1.95996 + 0.84162) * sqrt(0.5 / 78) = 0.2243
    expect(describePower(78)).toBe(
      "With 78 examples, differences below 22.4 points cannot be detected reliably (80% power at the 5% level).",
    );
    const errors = 1.959963984540054 + 0.8416212335729143;
    expectClose(minDetectableDifference(78, { discordant: 0.1 }), errors * Math.sqrt(0.1 / 78), float64);
    expect(minDetectableDifference(1)).toBe(1);
  });

  test("agrees with a simulation of McNemar's test", () => {
    const rng = new Rng(7);
    const [count, discordant] = [400, 0.2];
    const gap = minDetectableDifference(count, { discordant });
    let found = 0;
    for (let trial = 0; trial < 1000; trial++) {
      let [a, b] = [0, 0];
      for (let i = 0; i < count; i++) {
        const draw = rng.next();
        a += Number(draw < (discordant + gap) / 2);
        b += Number(draw >= (discordant + gap) / 2 && draw < discordant);
      }
      found += Number((a - b) ** 2 / (a + b) > 1.96 ** 2);
    }
    // The power is 80%. 4 standard errors of a count of 1000 are allowed.
    expect(Math.abs(found - 800)).toBeLessThan(4 * Math.sqrt(1000 * 0.8 * 0.2));
  });
});

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
