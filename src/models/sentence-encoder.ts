import { evalMode } from "../nn/index.js";
import { noGrad, scope } from "../tensor/index.js";
import { padBatch } from "../text/batch.js";
import { checkOutputs } from "./finite-outputs.js";
import { batchForInference } from "./inference-batches.js";
import { extractFeatures, type Model } from "./model.js";
import { toModelInput } from "./model-input.js";

/**
 * Encodes texts as sentence-transformers do: the mean of the last hidden states of the tokens,
 * scaled to length 1. The dot product of two vectors is their cosine similarity.
 */
export async function encodeSentences(model: Model, texts: readonly string[]): Promise<Float32Array[]> {
  const { config } = model.architecture;
  const device = model.weights.values().next().value!.device;
  const encodings = model.tokenizer.encodeAll(
    texts.map((text) => [text]),
    model.maxLength,
  );
  const vectors = new Array<Float32Array>(texts.length);
  for (const batch of batchForInference(encodings, device)) {
    const padded = padBatch(
      batch.map((index) => encodings[index]!),
      model.tokenizer.special.padId,
    );
    const values = scope(() =>
      noGrad(() => {
        const input = toModelInput(padded, config, device);
        const features = extractFeatures({ config, pooling: "mean" }, model.weights, input, evalMode);
        return checkOutputs(features.toFloat32Array());
      }),
    );
    batch.forEach((index, row) => {
      vectors[index] = normalize(values.slice(row * config.hiddenSize, (row + 1) * config.hiddenSize));
    });
    await new Promise(setImmediate);
  }
  return vectors;
}

function normalize(vector: Float32Array): Float32Array {
  const norm = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  return norm === 0 ? vector : vector.map((value) => value / norm);
}
