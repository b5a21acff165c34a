import { UserError } from "../errors.js";
import { metrics as measures } from "../evaluation/metrics.js";
import type { Model } from "../models/index.js";
import { didYouMean } from "../near-miss.js";
import type { Item } from "./dataset.js";
import { type Evaluation, Interrupted } from "./job.js";
import type { Layer } from "./layer.js";
import { type Placement, probabilitiesOf } from "./predict.js";
import type { RunnerContext } from "./runner.js";

export interface EvaluateOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
}

/** The metrics of a split: the classifier's own, and those that layers add. Throws `Interrupted` between batches. */
export async function evaluateItems(
  model: Model,
  context: Pick<RunnerContext, "run" | "stack">,
  items: readonly Item[],
  placement: Placement,
  { signal, onProgress }: EvaluateOptions = {},
): Promise<Evaluation> {
  const encoded = items.map((item) => item.encoded);
  const probabilities = await probabilitiesOf(model, model.weights, encoded, placement, (done) => {
    if (signal?.aborted) throw new Interrupted("stopped during an evaluation");
    onProgress?.(done, items.length);
  });
  const labels = items.map((item) => item.example.label);
  const metrics = Object.fromEntries(Object.entries(measures).map(([name, measure]) => [name, measure(probabilities, labels)]));
  for (const layer of context.stack.layers) Object.assign(metrics, await layer.evaluate?.(context.run, items));
  return metrics;
}

/** The metrics that a run with these layers can be selected by. */
export function selectionMetrics(layers: readonly Pick<Layer, "selectBy">[]): string[] {
  return [...Object.keys(measures), ...layers.flatMap(({ selectBy }) => selectBy ?? [])];
}

/** The metric that selects; where layers add none of their own, a wrong name is found before training. */
export function checkSelectBy(name: string, layersAdd: boolean): void {
  if (!layersAdd && !(name in measures)) throw unknownMetric(name, Object.keys(measures));
}

export function unknownMetric(name: string, known: readonly string[]): UserError {
  return new UserError(`train.selectBy: expected one of ${known.join(", ")}, received ${name}${didYouMean(name, known)}`);
}

/** Whether a metric has become better: a loss or an error falls, everything else rises. */
export function isBetter(metric: string, value: number, than: number): boolean {
  return /loss|error/i.test(metric) ? value < than : value > than;
}
