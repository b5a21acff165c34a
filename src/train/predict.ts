import { classify, lengthBatches, type Model, onCpu, openClassifier, type Placement } from "../models/index.js";
import type { Weights } from "../nn/index.js";
import type { Encoded } from "../text/encoding.js";

export { lengthBatches, onCpu, type Placement };

/** Class probabilities of encoded texts, in their order: row i of the result is text i. */
export async function probabilitiesOf(
  model: Model,
  weights: Weights,
  encoded: readonly Encoded[],
  placement: Placement = onCpu,
  onBatch?: (done: number) => void,
): Promise<Float32Array[]> {
  const tokens = encoded.reduce((sum, { ids }) => sum + ids.length, 0);
  const classifier = openClassifier(model, weights, placement, tokens);
  try {
    return await classify(classifier, encoded, onBatch);
  } finally {
    classifier.close();
  }
}
