import { expect, test } from "vitest";
import { computePrecisionRecall } from "../../src/evaluation/precision-recall.js";
import { expectClose, float64 } from "../rounding.js";

const scoreTexts = (scores: readonly number[], labels: readonly number[]) =>
  scores.map((score, i) => ({ score, isPositive: labels[i] === 1 }));

test("precision and recall by threshold, as scikit-learn computes them", () => {
  // precision_recall_curve and average_precision_score of ([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).
  const curve = computePrecisionRecall(scoreTexts([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]))!;
  expect(curve.points).toEqual([
    { threshold: 0.1, precision: 0.5, recall: 1 },
    { threshold: 0.35, precision: 2 / 3, recall: 1 },
    { threshold: 0.4, precision: 0.5, recall: 0.5 },
    { threshold: 0.8, precision: 1, recall: 0.5 },
  ]);
  expectClose(curve.averagePrecision, 5 / 6, float64);
});

test("equal scores are one point, and there are at most 200", () => {
  expect(computePrecisionRecall(scoreTexts([0.5, 0.5, 0.5], [1, 0, 0]))!.points).toEqual([
    { threshold: 0.5, precision: 1 / 3, recall: 1 },
  ]);
  const scores = Array.from({ length: 1000 }, (_, i) => i / 1000);
  const { points } = computePrecisionRecall(
    scoreTexts(
      scores,
      scores.map((score) => Number(score > 0.5)),
    ),
  )!;
  expect(points).toHaveLength(200);
  expect([points[0]!.threshold, points.at(-1)!.threshold]).toEqual([0, 0.999]);
});

test("without positive examples there is no curve", () => {
  expect(computePrecisionRecall(scoreTexts([0.5], [0]))).toBeNull();
});
