import { metrics as measures } from "../evaluation/metrics.js";
import type { Model } from "../models/index.js";
import type { Item } from "./dataset.js";
import type { Evaluation } from "./job.js";
import { type Placement, probabilitiesOf } from "./predict.js";
import type { RunnerContext } from "./runner.js";

/** The metrics of a split: the classifier's own, and those that layers add. */
export async function evaluateItems(
  model: Model,
  context: Pick<RunnerContext, "run" | "stack">,
  items: readonly Item[],
  placement: Placement,
): Promise<Evaluation> {
  const probabilities = await probabilitiesOf(
    model,
    model.weights,
    items.map((item) => item.encoded),
    placement,
  );
  const labels = items.map((item) => item.example.label);
  const metrics = Object.fromEntries(Object.entries(measures).map(([name, measure]) => [name, measure(probabilities, labels)]));
  for (const layer of context.stack.layers) Object.assign(metrics, await layer.evaluate?.(context.run, items));
  return metrics;
}

/** Whether a metric has become better: a loss or an error falls, everything else rises. */
export function isBetter(metric: string, value: number, than: number): boolean {
  return /loss|error/i.test(metric) ? value < than : value > than;
}
