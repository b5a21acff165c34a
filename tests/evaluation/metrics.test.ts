import { describe, expect, test } from "vitest";
import {
  accuracy,
  confusionMatrix,
  expectedCalibrationError,
  f1,
  logLoss,
  macroF1,
  matthewsCorrelation,
  metrics,
  toPredictions,
} from "../../src/evaluation/metrics.js";
import { expectClose, float64, matchClose } from "../rounding.js";

const labels = [0, 1, 2, 2, 1, 0, 1, 2, 0, 1];
const probabilities = [
  [0.6, 0.3, 0.1],
  [0.2, 0.5, 0.3],
  [0.1, 0.2, 0.7],
  [0.5, 0.2, 0.3],
  [0.1, 0.8, 0.1],
  [0.4, 0.35, 0.25],
  [0.3, 0.3, 0.4],
  [0.05, 0.05, 0.9],
  [0.1, 0.6, 0.3],
  [0.25, 0.5, 0.25],
];
const predicted = toPredictions(probabilities);

// Expected values are from scikit-learn.
describe("metrics", () => {
  test("three classes", () => {
    expect([...predicted]).toEqual([0, 1, 2, 0, 1, 0, 2, 2, 1, 1]);
    expect(accuracy(predicted, labels)).toBe(0.7);
    expect(confusionMatrix(predicted, labels, 3)).toEqual([
      [2, 1, 0],
      [0, 3, 1],
      [1, 0, 2],
    ]);
    expectClose(macroF1(predicted, labels), 0.6944444444444443, float64); // f1_score(average="macro")
    expect([0, 1, 2].map((label) => f1(predicted, labels, label))).toEqual([2 / 3, 0.75, 2 / 3]);
    expectClose(matthewsCorrelation(predicted, labels), 0.5454545454545454, float64); // matthews_corrcoef
    expectClose(logLoss(probabilities, labels), 0.8209120429316723, float64); // log_loss
    // Bins have a width of 0.1 and are open below. Confidences and accuracies of size 1 cancel.
    expectClose(expectedCalibrationError(probabilities, labels, 10), 0.15, { ...float64, scale: 1 });
  });

  test("two classes", () => {
    const [gold, guess] = [
      [0, 1, 1, 0, 1, 1, 0, 0],
      [0, 1, 0, 0, 1, 1, 1, 0],
    ];
    expect(f1(guess, gold)).toBe(0.75);
    expect(matthewsCorrelation(guess, gold)).toBe(0.5);
  });

  test("edge cases", () => {
    expect(f1([0, 0], [0, 0])).toBe(0);
    expect(matthewsCorrelation([1, 1], [0, 1])).toBe(0);
    expect(toPredictions([[0.5, 0.5]])[0]).toBe(0);
    expect(logLoss([[1, 0]], [1])).toBe(-Math.log(1e-15));
    const certain = [
      [1, 0],
      [0, 1],
    ];
    expect(expectedCalibrationError(certain, [0, 1])).toBe(0);
    expect(expectedCalibrationError(certain, [1, 0])).toBe(1);
  });

  test("are available under the names that tasks use", () => {
    const values = Object.fromEntries(
      Object.entries(metrics).map(([name, metric]) => [
        name,
        metric(toPredictions(probabilities), labels, probabilities),
      ]),
    );
    expect(values).toMatchObject({
      accuracy: 0.7,
      f1: 0.75,
      matthews: matchClose(6 / 11, float64),
      "macro-f1": matchClose(25 / 36, float64),
    });
    for (const value of Object.values(values)) expect(value).toBeGreaterThan(0);
  });
});
