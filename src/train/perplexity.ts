import { type DeviceConfig, forward, type Model, toModelInput } from "../models/index.js";
import { crossEntropy, evalMode } from "../nn/index.js";
import { free, keep, noGrad, scope, tensor } from "../tensor/index.js";
import { toHostBatch } from "./batch-transfer.js";
import type { Dataset } from "./dataset.js";
import { castWeights } from "./mixed-precision.js";

/** The validation metrics of a masked language model. */
export const perplexityMetrics = ["perplexity", "log-loss"] as const;

const evaluationBatchSize = 64;

/** Computes the mean of -log p(token) over masked tokens, and its exponential, the perplexity. */
export async function evaluatePerplexity(
  model: Model,
  dataset: Dataset,
  deviceConfig: DeviceConfig,
  onBatch?: (done: number) => void,
): Promise<Record<(typeof perplexityMetrics)[number], number>> {
  const { device, computeDtype } = deviceConfig;
  const { architecture } = model;
  const isCast = computeDtype !== "float32";
  const weights = isCast
    ? scope(() => noGrad(() => keep(castWeights(architecture.config, model.weights, computeDtype))))
    : model.weights;
  let [sum, count] = [0, 0];
  try {
    for (let start = 0; start < dataset.items.length; start += evaluationBatchSize) {
      const end = Math.min(start + evaluationBatchSize, dataset.items.length);
      const indices = Int32Array.from({ length: end - start }, (_, i) => start + i);
      const { padded, labels, predictedPositions } = toHostBatch({ train: dataset, model, deviceConfig }, indices);
      const numLabels = labels.reduce((total, label) => total + (label >= 0 ? 1 : 0), 0);
      count += numLabels;
      sum += scope(() =>
        noGrad(() => {
          const input = {
            ...toModelInput(padded, architecture.config, device),
            predictedPositions: predictedPositions && tensor(predictedPositions, undefined, { device }),
          };
          const { logits } = forward(architecture, weights, input, evalMode);
          return crossEntropy(logits, tensor(labels, undefined, { device })).item() * numLabels;
        }),
      );
      await new Promise(setImmediate);
      onBatch?.(end);
    }
  } finally {
    if (isCast) free(weights);
  }
  return { perplexity: Math.exp(sum / count), "log-loss": sum / count };
}
