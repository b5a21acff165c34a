import { describe, expect, test } from "vitest";
import { crossEntropy } from "../../src/nn/index.js";
import { scope, tensor } from "../../src/tensor/index.js";
import { createTaskLoss, resolveClassWeights, toWeightsTensor } from "../../src/train/task-loss.js";
import { expectClose } from "../rounding.js";

const logits = [
  [2, -1],
  [0.5, 0.25],
  [-3, 1],
];
const labels = [0, 1, 1];
const probabilities = logits.map((row, i) => {
  const powers = row.map(Math.exp);
  return powers[labels[i]!]! / (powers[0]! + powers[1]!);
});

function computeLoss(weights: readonly number[] | null): number {
  return scope(() => {
    const loss = createTaskLoss(weights && toWeightsTensor(weights, "cpu"));
    return loss(
      tensor(Float32Array.from(logits.flat()), [3, 2]),
      tensor(Int32Array.from(labels), [3]).to("int64"),
    ).item();
  });
}

const average = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

describe("the task loss", () => {
  test("is the plain cross-entropy without weights", () => {
    scope(() => {
      const given = tensor(Float32Array.from(logits.flat()), [3, 2]);
      const targets = tensor(Int32Array.from(labels), [3]).to("int64");
      const loss = createTaskLoss(null);
      expect(loss(given, targets).item()).toBe(crossEntropy(given, targets).item());
      const each = [...loss.perExample(given, targets).toFloat32Array()];
      expectClose(
        each,
        probabilities.map((p) => -Math.log(p)),
      );
    });
  });

  test("multiplies the loss of an example by the weight of its label", () => {
    const expected = average(probabilities.map((p, i) => [0.5, 8][labels[i]!]! * -Math.log(p)));
    expectClose(computeLoss([0.5, 8]), expected);
    expectClose(computeLoss([1, 1]), computeLoss(null));
  });
});

describe("class weights", () => {
  test("balanced weights are inverse to the frequency and have the mean 1", () => {
    const weights = resolveClassWeights({ classWeights: "balanced" }, ["ok", "toxic"], [95, 5])!;
    expect(weights).toEqual([100 / 190, 10]);
    expectClose((95 * weights[0]! + 5 * weights[1]!) / 100, 1, { format: "float64" });
  });

  test("labels that a map does not name have the weight 1", () => {
    expect(resolveClassWeights({ classWeights: { toxic: 10 } }, ["ok", "toxic"], [1, 1])).toEqual([1, 10]);
    expect(resolveClassWeights({ classWeights: null }, ["ok", "toxic"], [1, 1])).toBeNull();
  });

  test("unknown labels and classes without examples are rejected", () => {
    expect(() => resolveClassWeights({ classWeights: { rude: 2 } }, ["ok", "toxic"], [1, 1])).toThrow(
      'expected labels of the task (ok, toxic), received "rude"',
    );
    expect(() => resolveClassWeights({ classWeights: "balanced" }, ["ok", "toxic"], [3, 0])).toThrow(
      "the training data has no example of toxic",
    );
  });
});
