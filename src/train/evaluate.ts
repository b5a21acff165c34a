import { didYouMean } from "../did-you-mean.js";
import { UserError } from "../errors.js";
import { metrics as measures } from "../evaluation/metrics.js";
import type { Model } from "../models/index.js";
import type { TokenizedExample } from "./dataset.js";
import { Interrupted, type Metrics } from "./job.js";
import { type Placement, predictProbabilities } from "./predict.js";
import type { RunnerContext } from "./runner.js";
import type { TrainingMethod } from "./training-method.js";

export interface EvaluateOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
}

/** The metrics of a split: the classifier's own, and those that layers add. Throws `Interrupted` between batches. */
export async function evaluateModel(
  model: Model,
  context: Pick<RunnerContext, "run" | "stack">,
  items: readonly TokenizedExample[],
  placement: Placement,
  { signal, onProgress }: EvaluateOptions = {},
): Promise<Metrics> {
  const encoded = items.map((item) => item.encoding);
  const probabilities = await predictProbabilities(model, model.weights, encoded, placement, (done) => {
    if (signal?.aborted) throw new Interrupted("stopped during an evaluation");
    onProgress?.(done, items.length);
  });
  const labels = items.map((item) => item.example.label);
  const metrics = Object.fromEntries(
    Object.entries(measures).map(([name, measure]) => [name, measure(probabilities, labels)]),
  );
  for (const layer of context.stack.methods) Object.assign(metrics, await layer.extraMetrics?.(context.run, items));
  return metrics;
}

/** The metrics that a run with these layers can be selected by. */
export function listBestModelMetrics(layers: readonly Pick<TrainingMethod, "bestModelMetric">[]): string[] {
  return [...Object.keys(measures), ...layers.flatMap(({ bestModelMetric: selectBy }) => selectBy ?? [])];
}

/** The metric that selects; where layers add none of their own, a wrong name is found before training. */
export function checkBestModelMetric(name: string, layersAdd: boolean): void {
  if (!layersAdd && !(name in measures)) throw createUnknownMetricError(name, Object.keys(measures));
}

export function createUnknownMetricError(name: string, known: readonly string[]): UserError {
  return new UserError(
    `train.metricForBestModel: expected one of ${known.join(", ")}, received ${name}${didYouMean(name, known)}`,
  );
}

/** Whether a metric has become better: a loss or an error falls, everything else rises. */
export function isBetter(metric: string, value: number, than: number): boolean {
  return /loss|error/i.test(metric) ? value < than : value > than;
}
