import { didYouMean } from "../did-you-mean.js";
import { UserError } from "../errors.js";
import { describeDegeneracy } from "../evaluation/degenerate.js";
import { describeMetric, isBetter, type MetricDescription } from "../evaluation/metric-table.js";
import { computeMetrics, confusionMatrix, listMetrics, toPredictions } from "../evaluation/metrics.js";
import { predictProbabilities } from "../models/index.js";
import type { Dataset } from "./dataset.js";
import { evaluatePerplexity, perplexityMetrics } from "./perplexity.js";
import type { TrainingContext } from "./training-context.js";
import { Interrupted, type Metrics, type TrainingJob } from "./training-job.js";
import type { TrainingMethod } from "./training-method.js";

/** The metrics of a model, and why it is degenerate; null if it is not. */
export interface ModelEvaluation {
  readonly metrics: Metrics;
  readonly degeneracy: string | null;
}

/**
 * Computes all metrics of a split, including those of the methods. Throws `Interrupted` between
 * batches.
 */
export async function evaluateModel(training: TrainingContext, dataset: Dataset): Promise<ModelEvaluation> {
  const { model, deviceConfig, signal, callbacks } = training.job;
  const { items } = dataset;
  if (dataset.mask) {
    const onBatch = (done: number): void => training.reportProgress("validation", done, items.length);
    const metrics = await evaluatePerplexity(model, dataset, deviceConfig, onBatch);
    return { metrics: { ...metrics }, degeneracy: null };
  }
  const encodings = items.map((item) => item.encoding);
  const probabilities = await predictProbabilities(model, model.weights, encodings, deviceConfig, (done) => {
    if (signal?.aborted) throw new Interrupted("Stopped during an evaluation.");
    callbacks?.onProgress?.("validation", done, items.length);
  });
  const labels = items.map((item) => item.example.label);
  const metrics = computeMetrics(probabilities, labels);
  for (const method of training.stack.methods) Object.assign(metrics, await method.extraMetrics?.(training, items));
  const matrix = confusionMatrix(toPredictions(probabilities), labels, model.labels.length);
  return { metrics, degeneracy: describeDegeneracy(matrix, model.labels) };
}

/**
 * Which values of a metric are better: as a method declares for its own metrics, or as in the
 * table.
 */
export function getMetricDirection(name: string, methods: readonly TrainingMethod[]): MetricDescription["direction"] {
  const isLowerBetter = methods.some(({ lowerIsBetter }) => lowerIsBetter?.includes(name));
  return isLowerBetter ? "lower" : describeMetric(name).direction;
}

/** The metrics of a validation split, without those of the methods. */
export function listValidationMetrics({ model }: Pick<TrainingJob, "model">, validation: Dataset): readonly string[] {
  return validation.mask ? perplexityMetrics : listMetrics(model.labels.length);
}

/**
 * Rejects an unknown metric before training. Methods with extra metrics are checked at the first
 * evaluation.
 */
export function checkBestModelMetric(name: string, methods: readonly TrainingMethod[], known: readonly string[]): void {
  if (!methods.some((method) => method.extraMetrics) && !known.includes(name))
    throw createUnknownMetricError(name, known);
}

export function createUnknownMetricError(name: string, known: readonly string[]): UserError {
  return new UserError(
    `train.metricForBestModel: unknown metric ${name}${didYouMean(name, known)}. Use one of ${known.join(", ")}.`,
  );
}

interface ScoredModel {
  readonly value: number;
  readonly degeneracy: string | null;
}

/**
 * Whether a model replaces the best one so far. A degenerate model can have the best robust
 * accuracy, so it never replaces a sound one, and a sound one always replaces it.
 */
export function isBetterModel(
  metric: string,
  model: ScoredModel,
  best: ScoredModel,
  direction: MetricDescription["direction"],
): boolean {
  if ((best.degeneracy === null) !== (model.degeneracy === null)) return model.degeneracy === null;
  return isBetter(metric, model.value, best.value, direction);
}
