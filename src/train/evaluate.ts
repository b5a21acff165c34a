import { didYouMean } from "../did-you-mean.js";
import { UserError } from "../errors.js";
import { metrics as metricFunctions } from "../evaluation/metrics.js";
import { predictProbabilities } from "../models/index.js";
import type { TokenizedExample } from "./dataset.js";
import type { TrainingContext } from "./training-context.js";
import { Interrupted, type Metrics } from "./training-job.js";
import type { TrainingMethod } from "./training-method.js";

/**
 * Computes all metrics of a split, including those of the methods. Throws `Interrupted` between
 * batches.
 */
export async function evaluateModel(training: TrainingContext, items: readonly TokenizedExample[]): Promise<Metrics> {
  const { model, deviceConfig, signal, callbacks } = training.job;
  const encodings = items.map((item) => item.encoding);
  const probabilities = await predictProbabilities(model, model.weights, encodings, deviceConfig, (done) => {
    if (signal?.aborted) throw new Interrupted("Stopped during an evaluation.");
    callbacks?.onProgress?.("validation", done, items.length);
  });
  const labels = items.map((item) => item.example.label);
  const metrics = Object.fromEntries(
    Object.entries(metricFunctions).map(([name, compute]) => [name, compute(probabilities, labels)]),
  );
  for (const method of training.stack.methods) Object.assign(metrics, await method.extraMetrics?.(training, items));
  return metrics;
}

/**
 * Rejects an unknown metric before training. Methods with extra metrics are checked at the first
 * evaluation.
 */
export function checkBestModelMetric(name: string, methods: readonly TrainingMethod[]): void {
  if (!methods.some((method) => method.extraMetrics) && !(name in metricFunctions))
    throw createUnknownMetricError(name, Object.keys(metricFunctions));
}

export function createUnknownMetricError(name: string, known: readonly string[]): UserError {
  return new UserError(
    `train.metricForBestModel: unknown metric ${name}${didYouMean(name, known)}. Use one of ${known.join(", ")}.`,
  );
}
