import { UserError } from "../errors.js";
import { confusionMatrix, metrics as measures, toPredictions } from "../evaluation/metrics.js";
import { wilsonInterval } from "../evaluation/statistics.js";
import { checkLabels, type Model } from "../models/index.js";
import { sampleExamples } from "../tasks/sample.js";
import type { Example, Split, Task } from "../tasks/task.js";
import { type Placement, predictProbabilities, toDataset } from "../train/index.js";
import { hashExamples } from "./environment.js";
import type { EvaluationResult } from "./results.js";

export interface EvaluateSplitOptions {
  /** Evaluate on a seeded, class-balanced sample of so many examples. */
  readonly maxSamples?: number | undefined;
  readonly seed?: number | undefined;
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
}

/** Evaluates a model on a split of a task whose labels it has. */
export async function evaluateSplit(
  model: Model,
  task: Task,
  split: Split,
  deviceConfig: Placement,
  options: EvaluateSplitOptions = {},
): Promise<EvaluationResult> {
  checkLabels(model.reference, model.labels, task.labels, task.name);
  if (!task.splits.includes(split))
    throw new UserError(`${task.name} has no ${split} split with labels; it has ${task.splits.join(", ")}`);
  const all = await task.load(split);
  const examples =
    options.maxSamples && options.maxSamples < all.length
      ? sampleExamples(all, options.maxSamples, options.seed ?? 0, task.labels.length)
      : all;
  return evaluateExamples(model, examples, split, deviceConfig, options.onProgress);
}

/** Evaluates a model on examples whose labels are in the model's order. */
export async function evaluateExamples(
  model: Model,
  examples: readonly Example[],
  split: string,
  deviceConfig: Placement,
  onProgress?: (done: number, total: number) => void,
): Promise<EvaluationResult> {
  if (examples.length === 0) throw new UserError(`the ${split} split is empty`);
  const { items } = toDataset(model, examples);
  const probabilities = await predictProbabilities(
    model,
    model.weights,
    items.map((item) => item.encoding),
    deviceConfig,
    (done) => onProgress?.(done, items.length),
  );
  const labels = items.map((item) => item.example.label);
  const predicted = toPredictions(probabilities);
  const right = labels.map((label, i) => Number(predicted[i] === label)).join("");
  const count = right.replaceAll("0", "").length;
  const { low, high } = wilsonInterval(count, labels.length);
  return {
    split,
    examples: labels.length,
    accuracy: count / labels.length,
    interval: [low, high],
    metrics: Object.fromEntries(
      Object.entries(measures).map(([name, measure]) => [name, measure(probabilities, labels)]),
    ),
    confusionMatrix: confusionMatrix(predicted, labels, model.labels.length),
    outcomes: { examples: hashExamples(examples), correct: right },
  };
}
