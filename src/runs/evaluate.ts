import { UserError } from "../errors.js";
import { confusion, metrics as measures, predictions } from "../evaluation/metrics.js";
import { wilson } from "../evaluation/statistics.js";
import type { Model } from "../models/index.js";
import { limitExamples } from "../tasks/sample.js";
import type { Example, Split, Task } from "../tasks/task.js";
import { type Placement, probabilitiesOf, toDataset } from "../train/index.js";
import type { SplitReport } from "./results.js";

/** Evaluates a model on a split of a task, or on a seeded, balanced sample of it. */
export async function evaluateSplit(
  model: Model,
  task: Task,
  split: Split,
  placement: Placement,
  options: { limit?: number | undefined; seed?: number; onProgress?: (done: number, total: number) => void } = {},
): Promise<SplitReport> {
  if (!task.splits.includes(split)) throw new UserError(`${task.name} has no ${split} split with labels; it has ${task.splits.join(", ")}`);
  const all = await task.load(split);
  const examples =
    options.limit && options.limit < all.length ? limitExamples(all, options.limit, options.seed ?? 0, task.labels.length) : all;
  return evaluateExamples(model, examples, split, placement, options.onProgress);
}

/** Evaluates a model on examples whose labels are in the model's order. */
export async function evaluateExamples(
  model: Model,
  examples: readonly Example[],
  split: string,
  placement: Placement,
  onProgress?: (done: number, total: number) => void,
): Promise<SplitReport> {
  if (examples.length === 0) throw new UserError(`the ${split} split is empty`);
  const { items } = toDataset(model, examples);
  const probabilities = await probabilitiesOf(
    model,
    model.weights,
    items.map((item) => item.encoded),
    placement,
    (done) => onProgress?.(done, items.length),
  );
  const labels = items.map((item) => item.example.label);
  const predicted = predictions(probabilities);
  const right = labels.filter((label, i) => predicted[i] === label).length;
  const { low, high } = wilson(right, labels.length);
  return {
    split,
    examples: labels.length,
    accuracy: right / labels.length,
    interval: [low, high],
    metrics: Object.fromEntries(Object.entries(measures).map(([name, measure]) => [name, measure(probabilities, labels)])),
    confusion: confusion(predicted, labels, model.labels.length),
  };
}
