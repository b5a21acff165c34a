import { UserError } from "../errors.js";
import { confusion, metrics as measures, predictions } from "../evaluation/metrics.js";
import { wilson } from "../evaluation/statistics.js";
import { checkLabels, type Model } from "../models/index.js";
import { limitExamples } from "../tasks/sample.js";
import type { Example, Split, Task } from "../tasks/task.js";
import { type Placement, probabilitiesOf, toDataset } from "../train/index.js";
import { hashExamples } from "./environment.js";
import type { SplitReport } from "./results.js";

export interface EvaluateSplitOptions {
  /** Evaluate on a seeded, class-balanced sample of so many examples. */
  readonly limit?: number | undefined;
  readonly seed?: number | undefined;
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
}

/** Evaluates a model on a split of a task whose labels it has. */
export async function evaluateSplit(
  model: Model,
  task: Task,
  split: Split,
  placement: Placement,
  options: EvaluateSplitOptions = {},
): Promise<SplitReport> {
  checkLabels(model.reference, model.labels, task.labels, task.name);
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
  const right = labels.map((label, i) => Number(predicted[i] === label)).join("");
  const count = right.replaceAll("0", "").length;
  const { low, high } = wilson(count, labels.length);
  return {
    split,
    examples: labels.length,
    accuracy: count / labels.length,
    interval: [low, high],
    metrics: Object.fromEntries(Object.entries(measures).map(([name, measure]) => [name, measure(probabilities, labels)])),
    confusion: confusion(predicted, labels, model.labels.length),
    outcomes: { examples: hashExamples(examples), right },
  };
}
