import { didYouMean } from "../base/did-you-mean.js";
import { Interrupted, UserError } from "../base/errors.js";
import { reportProgress } from "../base/events.js";
import { describeDegeneracy } from "../evaluation/degenerate.js";
import {
  describeMetric,
  getRecallId,
  getRecallLabel,
  isBetter,
  type MetricDescription,
} from "../evaluation/metric-table.js";
import { computeMetrics, confusionMatrix, listMetrics, toPredictions } from "../evaluation/metrics.js";
import { predictProbabilities } from "../models/index.js";
import type { Dataset } from "./dataset.js";
import type { ActiveTraining } from "./training-context.js";
import type { Metrics, TrainingJob, TrainingMethod } from "./training-method.js";

/** Computes all metrics of a split. Throws `Interrupted` between batches. */
export async function evaluateModel(
  training: ActiveTraining,
  dataset: Dataset,
): Promise<{ readonly metrics: Metrics; readonly degeneracy: string | null }> {
  const { ranks, computeRows } = training;
  const { model, deviceConfig, signal, methods } = training.job;
  const { items } = dataset;
  const encodings = items.map((item) => item.encoding);
  const onBatch = (done: number): void => {
    // Several processes stop together after the evaluation.
    if (ranks.size === 1 && signal?.aborted) throw new Interrupted("Stopped during an evaluation.");
    reportProgress(training.job, "validation", Math.min(done * ranks.size, items.length), items.length);
  };
  const probabilities = await computeRows(encodings, (own) =>
    predictProbabilities(model, model.weights, own, deviceConfig, onBatch),
  );
  const labels = items.map((item) => item.example.label);
  const metrics = computeMetrics(probabilities, labels, model.labels);
  for (const method of methods) Object.assign(metrics, await method.extraMetrics?.(training, items));
  const matrix = confusionMatrix(toPredictions(probabilities), labels, model.labels.length);
  return { metrics, degeneracy: describeDegeneracy(matrix, model.labels) };
}

export function getMetricDirection(name: string, methods: readonly TrainingMethod[]): MetricDescription["direction"] {
  const isLowerBetter = methods.some(({ lowerIsBetter }) => lowerIsBetter?.includes(name));
  return isLowerBetter ? "lower" : describeMetric(name).direction;
}

export function listValidationMetrics({ model }: Pick<TrainingJob, "model">, validation: Dataset): readonly string[] {
  const present = new Set(validation.items.map(({ example }) => example.label));
  const missing = new Set(model.labels.filter((_, label) => !present.has(label)).map(getRecallId));
  return listMetrics(model.labels).filter((name) => !missing.has(name));
}

/** Rejects an unknown metric before training, unless a method may add it. */
export function checkBestModelMetric(name: string, methods: readonly TrainingMethod[], known: readonly string[]): void {
  if (!methods.some((method) => method.extraMetrics) && !known.includes(name))
    throw createUnknownMetricError(name, known);
}

export function createUnknownMetricError(name: string, known: readonly string[]): UserError {
  const label = getRecallLabel(name);
  if (label !== null)
    return new UserError(
      `train.metricForBestModel: ${name}: the validation split has no example of ${JSON.stringify(label)}. ` +
        `Add examples, or use one of ${known.join(", ")}.`,
    );
  return new UserError(
    `train.metricForBestModel: unknown metric ${name}${didYouMean(name, known)}. Use one of ${known.join(", ")}.`,
  );
}

/** Returns true if a model replaces the best one. A degenerate one never replaces a sound one. */
export function isBetterModel(
  metric: string,
  model: { readonly value: number; readonly degeneracy: string | null },
  best: { readonly value: number; readonly degeneracy: string | null },
  direction: MetricDescription["direction"],
): boolean {
  if ((best.degeneracy === null) !== (model.degeneracy === null)) return model.degeneracy === null;
  return isBetter(metric, model.value, best.value, direction);
}
