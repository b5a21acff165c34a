import {
  batchByLength,
  classify,
  cpuFloat32,
  createClassifier,
  type DeviceConfig,
  type Model,
} from "../models/index.js";
import type { Weights } from "../nn/index.js";
import type { Encoding } from "../text/encoding.js";

export { batchByLength as lengthBatches, cpuFloat32 as onCpu, type DeviceConfig as Placement };

/** Class probabilities of encoded texts, in their order: row i of the result is text i. */
export async function predictProbabilities(
  model: Model,
  weights: Weights,
  encoded: readonly Encoding[],
  placement: DeviceConfig = cpuFloat32,
  onBatch?: (done: number) => void,
): Promise<Float32Array[]> {
  const tokens = encoded.reduce((sum, { ids }) => sum + ids.length, 0);
  const classifier = createClassifier(model, weights, placement, tokens);
  try {
    return await classify(classifier, encoded, onBatch);
  } finally {
    classifier.close();
  }
}
