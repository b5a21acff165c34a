import { describe, expect, test } from "vitest";
import { computeBalancedAccuracy, describeDegeneracy } from "../../src/evaluation/degenerate.js";
import {
  accuracy,
  computeMetrics,
  confusionMatrix,
  expectedCalibrationError,
  f1,
  logLoss,
  macroF1,
  matthewsCorrelation,
  metrics,
  toPredictions,
} from "../../src/evaluation/metrics.js";
import { describePower, wilsonInterval } from "../../src/evaluation/statistics.js";
import { computeGuessLoss, listLossWarnings, listResultWarnings } from "../../src/runs/result-warnings.js";
import type { EvaluationResult } from "../../src/runs/results.js";
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

const spam = ["ham", "spam"];

/** A confusion matrix: "45 5, 5 45". */
const parse = (rows: string): number[][] => rows.split(", ").map((row) => row.split(" ").map(Number));

describe("a degenerate model", () => {
  test("predicts one label for at least 98% of the texts although no label has more than 90%", () => {
    const constant = parse("0 150, 0 150");
    expect(describeDegeneracy(constant, spam)).toBe("it predicts spam for 300 of 300 texts");
    const nearlyConstant = parse("6 144, 0 150");
    expect(describeDegeneracy(nearlyConstant, spam)).toBe("it predicts spam for 294 of 300 texts");
    const learned = parse("150 50, 20 180");
    expect(describeDegeneracy(learned)).toBeNull();
    // 98% of these predictions are one label, but so are 97% of the texts, and recall is 2 of 3.
    const rare = parse("970 0, 10 20");
    expect(describeDegeneracy(rare)).toBeNull();
  });

  test("cannot be told from guessing", () => {
    const guess = parse("26 24, 25 25");
    expect(describeDegeneracy(guess)).toMatch(
      /^its balanced accuracy of 51\.0% on 100 texts \(95% CI [\d.]+% to [\d.]+%\) cannot be told from guessing \(50\.0%\)$/,
    );
    // A constant prediction of a label that nearly all texts have is a guess, too.
    expect(describeDegeneracy(parse("950 0, 50 0"))).toContain("cannot be told from guessing");
    // Worse than guessing is not better than guessing.
    expect(describeDegeneracy(parse("5 45, 45 5"))).not.toBeNull();
  });

  test("needs two labels to be found, and few texts do not make a perfect model degenerate", () => {
    expect(describeDegeneracy(parse("10 0, 0 0"))).toBeNull();
    expect(describeDegeneracy([])).toBeNull();
    expect(describeDegeneracy(parse("3 0, 0 3"))).toBeNull();
  });

  test("the interval of balanced accuracy has a width at 0% and 100%", () => {
    const { value, low, high, chance } = computeBalancedAccuracy(parse("10 0, 0 10"));
    expect([value, chance]).toEqual([1, 0.5]);
    // Two distances to Wilson's lower bound of 10 of 10, 0.7225, combine.
    expectClose(low, 1 - (1 - wilsonInterval(10, 10).low) / Math.SQRT2, float64);
    expect(high).toBe(1);
  });
});

const evaluation = (confusionMatrix: number[][], loss: number): EvaluationResult => ({
  ...{
    task: "spam",
    hiddenTexts: 0,
    split: "test",
    examples: 100,
    accuracy: 0.9,
    interval: { low: 0.8, high: 0.95 },
    metrics: { "log-loss": loss },
    ...{ threshold: null, auc: null, recallAtFpr: null, operatingPoints: null },
    ...{ benign: [], slices: [], degeneracy: null },
  },
  ...{ confusionMatrix, labels: spam, positiveLabel: "spam", outcomes: { examples: "x", correct: "1" } },
});

test("a log-loss far above guessing is a warning", () => {
  const sound = parse("45 5, 5 45");
  expect(listResultWarnings(evaluation(sound, 0.4))).toEqual([]);
  expect(listResultWarnings(evaluation(sound, 17))).toEqual([
    "The log-loss on spam test is 17, but guessing gives 0.693. Training may have diverged. Try a lower learning rate.",
  ]);
  expect(listResultWarnings(evaluation(parse("0 50, 0 50"), 0.69))).toEqual([
    "The model is degenerate on spam test: it predicts spam for 100 of 100 texts. Do not draw conclusions from its results.",
  ]);
});

test("the training loss of the last steps shows divergence and underfitting", () => {
  const settings = { batchSampler: "shuffled" } as const;
  const labels = { counts: [2, 2], settings, classWeights: null };
  const events = (...losses: number[]) => losses.map((loss, i) => ({ step: i + 1, loss: loss + 9, "loss.task": loss }));
  expect(listLossWarnings(events(0.7, 0.5, 0.3, 0.1), labels)).toEqual([]);
  expect(listLossWarnings(events(0.7, 3, 9, 17), labels)).toEqual([
    "Training diverged: the training loss of the last step is 17, and guessing gives 0.693. Use a lower learning rate.",
  ]);
  expect(listLossWarnings(events(0.7, 0.69, 0.7, 0.69), labels)[0]).toMatch(/^The model has hardly learned: .* 0\.69,/);
  expect(listLossWarnings([], labels)).toEqual([]);
  expect(listLossWarnings(events(0.7), { ...labels, counts: [0, 2] })).toEqual([]);
});

test("the loss of guessing depends on the batches and on the loss", () => {
  const counts = [95, 5];
  const plain = { batchSampler: "shuffled" } as const;
  const entropy = -(0.95 * Math.log(0.95) + 0.05 * Math.log(0.05));
  expectClose(computeGuessLoss({ counts, settings: plain, classWeights: null }), entropy, float64);
  const balanced = { batchSampler: "class-balanced" } as const;
  expectClose(computeGuessLoss({ counts, settings: balanced, classWeights: null }), Math.LN2, float64);
  const classWeights = [100 / 190, 100 / 10];
  expectClose(computeGuessLoss({ counts, settings: plain, classWeights }), Math.LN2, float64);
  // An undertrained model with balanced batches has not diverged.
  const events = [{ step: 1, loss: 0.675, "loss.task": 0.675 }];
  expect(listLossWarnings(events, { counts, settings: balanced, classWeights: null })[0]).toMatch(/hardly learned/);
});

test("F1 is of the second of two classes; with more classes there are micro and macro F1", () => {
  expect(Object.keys(computeMetrics([[0.1, 0.9]], [1], ["a", "b"]))).toEqual(
    expect.arrayContaining(["accuracy", "f1", "macro-f1"]),
  );
  const three = computeMetrics(
    [
      [0.8, 0.1, 0.1],
      [0.1, 0.8, 0.1],
      [0.1, 0.8, 0.1],
      [0.2, 0.1, 0.7],
    ],
    [0, 1, 0, 2],
    ["a", "b", "c"],
  );
  expect(three).toMatchObject({ "balanced-accuracy": (0.5 + 1 + 1) / 3, "recall:a": 0.5, "recall:b": 1 });
  expect(three).not.toHaveProperty("f1");
  // f1_score(average="micro") and "macro" of scikit-learn.
  expect(three).toMatchObject({ "micro-f1": 0.75, "macro-f1": matchClose((2 / 3 + 2 / 3 + 1) / 3, float64) });
});

test("the power statement never says that all differences can be detected", () => {
  for (const accuracy of [0, 1]) {
    const [, points] = /below ([\d.]+) points/.exec(describePower(5, { accuracy }))!;
    expect(Number(points)).toBeGreaterThan(50);
  }
  expect(describePower(1000, { discordant: 0 })).not.toContain(" 0.0 points");
});
