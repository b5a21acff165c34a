import { formatCount } from "../../base/format.js";
import type { Example, Task } from "../../tasks/index.js";
import { computeDedupKey } from "../../tasks/split-examples.js";
import type { TrainSettings } from "../../train/index.js";

/** With fewer examples per label, results vary more between seeds than between methods. */
const fewPerLabel = 20;

/** A label with less than this fraction of an equal share is easily ignored. */
const imbalancedShare = 0.2;

/**
 * What is suspicious about training data: rare labels, contradictions, too few examples. Nothing is
 * said about an imbalance that the settings take care of.
 */
export function listTrainingDataWarnings(
  task: Pick<Task, "name" | "labels">,
  train: readonly Example[],
  { classWeights, batchSampler }: Pick<TrainSettings, "classWeights" | "batchSampler">,
): string[] {
  const counts = task.labels.map((_, label) => train.filter((example) => example.label === label).length);
  const rare = task.labels.filter((_, label) => counts[label]! === 1);
  const labelsByText = new Map<string, Set<number>>();
  for (const { texts, label } of train) {
    const key = computeDedupKey(texts);
    labelsByText.set(key, (labelsByText.get(key) ?? new Set()).add(label));
  }
  const conflicts = [...labelsByText.values()].filter((labels) => labels.size > 1).length;
  const isImbalanced =
    classWeights === null &&
    batchSampler === "shuffled" &&
    counts.some((count) => count > 1 && count < (imbalancedShare * train.length) / counts.length);
  const listed = task.labels.map((label, i) => `${formatCount(counts[i]!)} of ${label}`);
  const isTiny = train.length < fewPerLabel * task.labels.length;
  return [
    rare.length > 0 &&
      `${task.name}: only one training example has the label ${rare.join(", and only one ")}. ` +
        "Add more examples, or remove the label.",
    isImbalanced &&
      `${task.name}: the training examples are imbalanced (${listed.join(", ")}). A model that ignores the rare labels ` +
        "has a high accuracy. Set train.classWeights to balanced, and look at balanced accuracy and recall.",
    conflicts > 0 &&
      `${task.name}: ${formatCount(conflicts)} ${conflicts === 1 ? "text occurs" : "texts occur"} more than once in ` +
        "the training data with different labels. Correct the labels.",
    isTiny &&
      `${task.name}: ${formatCount(train.length)} training examples are few for ${task.labels.length} labels. ` +
        "Expect results to vary between seeds.",
  ].filter((warning) => warning !== false);
}
