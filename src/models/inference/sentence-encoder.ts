import { evalMode } from "../../nn/index.js";
import { free, noGrad, scope } from "../../tensor/index.js";
import { padBatch } from "../../text/batch.js";
import { canPackOnCpu } from "../can-pack.js";
import { cpuFloat32 } from "../device-config.js";
import { extractFeatures, type Model } from "../model.js";
import { toModelInput } from "../model-input.js";
import { checkOutputs } from "./finite-outputs.js";
import { prepareForInference } from "./fused-weights.js";
import { batchByTokens, batchForInference } from "./inference-batches.js";

export interface SentenceModel {
  /** Encodes as sentence-transformers do: the mean of the last hidden states, with length 1. */
  encode(texts: readonly string[], onProgress?: (done: number) => void): Promise<Float32Array[]>;
  close(): void;
}

/** Tokens per batch without padding on a CPU: few enough for the cache. */
const packedTokens = 2048;

/** Prepares a model to encode texts. On a CPU, it uses the kernels of a classifier. */
export function createSentenceModel(model: Model): SentenceModel {
  const { config } = model.architecture;
  const { device } = model.weights.values().next().value!;
  const prepared = device === "cpu" ? prepareForInference(config, model.weights) : null;
  const pack = prepared && canPackOnCpu(config, cpuFloat32) ? "always" : false;
  return {
    async encode(texts, onProgress) {
      const encodings = model.tokenizer.encodeAll(
        texts.map((text) => [text]),
        model.maxLength,
      );
      const vectors = new Array<Float32Array>(texts.length);
      let done = 0;
      const batches = pack ? batchByTokens(encodings, packedTokens) : batchForInference(encodings, device);
      for (const batch of batches) {
        const chosen = batch.map((index) => encodings[index]!);
        const padded = padBatch(chosen, model.tokenizer.special.padId);
        const values = scope(() =>
          noGrad(() => {
            const input = toModelInput(padded, config, device, pack);
            const features = extractFeatures({ config, pooling: "mean" }, prepared ?? model.weights, input, evalMode);
            return checkOutputs(features.toFloat32Array());
          }),
        );
        batch.forEach((index, row) => {
          vectors[index] = normalize(values.slice(row * config.hiddenSize, (row + 1) * config.hiddenSize));
        });
        done += batch.length;
        onProgress?.(done);
        await new Promise(setImmediate);
      }
      return vectors;
    },
    close() {
      const shared = new Set(model.weights.values());
      free([...(prepared?.values() ?? [])].filter((tensor) => !shared.has(tensor)));
    },
  };
}

function normalize(vector: Float32Array): Float32Array {
  const norm = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  return norm === 0 ? vector : vector.map((value) => value / norm);
}
