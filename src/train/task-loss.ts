import { UserError } from "../base/errors.js";
import { crossEntropy, crossEntropyPerExample } from "../nn/index.js";
import { type Device, scope, type Tensor, tensor } from "../tensor/index.js";
import type { TrainSettings } from "./settings.js";

export function countLabels(examples: Iterable<{ readonly label: number }>, numLabels: number): number[] {
  const counts = new Array<number>(numLabels).fill(0);
  for (const { label } of examples) counts[label]!++;
  return counts;
}

/** Returns the factor of each label, or null. Balanced weights have the mean 1. */
export function resolveClassWeights(
  { classWeights }: Pick<TrainSettings, "classWeights">,
  labels: readonly string[],
  counts: readonly number[],
): number[] | null {
  if (classWeights === null) return null;
  if (classWeights === "balanced") {
    const missing = labels.find((_, label) => counts[label] === 0);
    if (missing !== undefined)
      throw new UserError(
        `train.classWeights balanced: the training data has no example of ${missing}. Add examples, or pass a map.`,
      );
    const total = counts.reduce((sum, count) => sum + count, 0);
    return counts.map((count) => total / (counts.length * count));
  }
  const unknown = Object.keys(classWeights).find((label) => !labels.includes(label));
  if (unknown !== undefined)
    throw new UserError(
      `train.classWeights: expected labels of the task (${labels.join(", ")}), received ${JSON.stringify(unknown)}.`,
    );
  return labels.map((label) => (Object.hasOwn(classWeights, label) ? classWeights[label]! : 1));
}

/** The loss from logits [batch, class]. The mean is over examples, so micro-batches add up. */
export interface TaskLoss {
  (logits: Tensor, labels: Tensor): Tensor;
  perExample(logits: Tensor, labels: Tensor): Tensor;
}

/** Creates the loss of a run. Without weights, it is the plain cross-entropy. */
export function createTaskLoss(weights: Tensor | null): TaskLoss {
  const perExample: TaskLoss["perExample"] = (logits, labels) => {
    const loss = crossEntropyPerExample(logits, labels);
    return weights === null ? loss : loss.mul(weights.indexSelect(0, labels));
  };
  // The fused mean is faster, and its last bit may differ.
  const computeMean = (logits: Tensor, labels: Tensor): Tensor =>
    weights === null ? crossEntropy(logits, labels) : perExample(logits, labels).mean();
  return Object.assign(computeMean, { perExample });
}

export function toWeightsTensor(weights: readonly number[], device: Device): Tensor {
  return scope(() => tensor(Float32Array.from(weights), [weights.length], { device }));
}
