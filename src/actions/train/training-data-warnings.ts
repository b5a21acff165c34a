import { formatCount } from "../../format.js";
import type { Example, Task } from "../../tasks/index.js";
import { computeDedupKey } from "../../tasks/split-examples.js";

/** With fewer examples per label, results vary more between seeds than between methods. */
const fewPerLabel = 20;

/** What is suspicious about training data: rare labels, contradictions, too few examples. */
export function listTrainingDataWarnings(task: Pick<Task, "name" | "labels">, train: readonly Example[]): string[] {
  const counts = task.labels.map((_, label) => train.filter((example) => example.label === label).length);
  const rare = task.labels.filter((_, label) => counts[label]! === 1);
  const labelsByText = new Map<string, Set<number>>();
  for (const { texts, label } of train) {
    const key = computeDedupKey(texts);
    labelsByText.set(key, (labelsByText.get(key) ?? new Set()).add(label));
  }
  const conflicts = [...labelsByText.values()].filter((labels) => labels.size > 1).length;
  const isTiny = train.length < fewPerLabel * task.labels.length;
  return [
    rare.length > 0 &&
      `${task.name}: only one training example has the label ${rare.join(", and only one ")}. ` +
        "Add more examples, or remove the label.",
    conflicts > 0 &&
      `${task.name}: ${formatCount(conflicts)} ${conflicts === 1 ? "text occurs" : "texts occur"} more than once in ` +
        "the training data with different labels. Correct the labels.",
    isTiny &&
      `${task.name}: ${formatCount(train.length)} training examples are few for ${task.labels.length} labels. ` +
        "Expect results to vary between seeds.",
  ].filter((warning) => warning !== false);
}
