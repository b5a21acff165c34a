import { expect, test } from "vitest";
import { Rng } from "../../src/base/rng.js";
import { computeOperatingPoints, computePrecision, type LabeledScore } from "../../src/evaluation/operating-points.js";
import { expectClose, float64 } from "../rounding.js";

/** Scores with many ties, which the definition counts by pairs. */
function drawScores(rng: Rng, count: number): LabeledScore[] {
  return Array.from({ length: count }, (_, i) => {
    const isPositive = i === 0 || (i > 1 && rng.next() < 0.3);
    return { score: (rng.integer(20) + (isPositive ? 6 : 0)) / 26, isPositive };
  });
}

test("the area is the fraction of pairs in the right order, and points are the best within their limit", () => {
  for (let seed = 0; seed < 30; seed++) {
    const texts = drawScores(new Rng(seed), 40 + seed);
    const result = computeOperatingPoints(texts)!;
    const [positives, others] = [true, false].map((wanted) => texts.filter(({ isPositive }) => isPositive === wanted));
    const pairs = positives!.flatMap((a) =>
      others!.map((b) => (a.score > b.score ? 1 : a.score === b.score ? 0.5 : 0)),
    );
    const mean = pairs.reduce<number>((sum, value) => sum + value, 0) / pairs.length;
    expectClose(result.auc, mean, float64);
    const rate = (list: readonly LabeledScore[], threshold: number): number =>
      list.filter(({ score }) => score >= threshold).length / list.length;
    const thresholds = texts.map(({ score }) => score);
    for (const [limit, { recall, falsePositiveRate, threshold }] of Object.entries(result.pointAtFpr)) {
      const allowed = thresholds.filter((each) => rate(others!, each) <= Number(limit));
      expect(recall).toBe(Math.max(0, ...allowed.map((each) => rate(positives!, each))));
      expect(falsePositiveRate).toBe(threshold === null ? 0 : rate(others!, threshold));
    }
    for (const point of result.curve) {
      const flagged = texts.filter(({ score }) => score >= point.threshold!);
      const precision = flagged.filter(({ isPositive }) => isPositive).length / flagged.length;
      expectClose(computePrecision(point, result), precision, float64);
    }
    const enough = thresholds.filter((each) => rate(positives!, each) >= 0.95);
    expect(result.fprAtRecall["0.95"]).toBe(Math.min(...enough.map((each) => rate(others!, each))));
  }
});

test("of separated labels everything is found without a false alarm, and the interval is no point", () => {
  const texts = [0.1, 0.2, 0.3, 0.8, 0.9].map((score) => ({ score, isPositive: score > 0.5 }));
  const { auc, aucInterval, pointAtFpr } = computeOperatingPoints(texts)!;
  expect([auc, aucInterval.high]).toEqual([1, 1]);
  expect(aucInterval.low).toBeGreaterThan(0.3);
  expect(aucInterval.low).toBeLessThan(0.8);
  expect(pointAtFpr["0.01"]).toMatchObject({ threshold: 0.8, recall: 1, falsePositiveRate: 0 });
});

test("if another text scores highest, no threshold keeps the limit", () => {
  const texts = [0.9, 0.8].map((score) => ({ score, isPositive: score < 0.85 }));
  expect(computeOperatingPoints(texts)!.pointAtFpr["0.01"]).toMatchObject({ threshold: null, recall: 0 });
});

test("without texts on both sides there are no points", () => {
  expect(computeOperatingPoints([{ score: 0.5, isPositive: true }])).toBeNull();
  expect(computeOperatingPoints([{ score: 0.5, isPositive: false }])).toBeNull();
});

test("the interval contains the true area in about 95% of samples", () => {
  // Scores uniform on [0, 1] and on [shift, 1 + shift]: P(a > b) = 1 - (1 - shift)² / 2.
  const rng = new Rng(7);
  const [shift, draws] = [0.5, 600];
  const area = 1 - (1 - shift) ** 2 / 2;
  let covered = 0;
  for (let draw = 0; draw < draws; draw++) {
    const texts = Array.from({ length: 80 }, (_, i) => ({
      score: rng.next() + (i < 30 ? shift : 0),
      isPositive: i < 30,
    }));
    const { low, high } = computeOperatingPoints(texts)!.aucInterval;
    covered += Number(low <= area && area <= high);
  }
  expect(covered / draws).toBeGreaterThan(0.93);
  expect(covered / draws).toBeLessThan(0.999);
});
