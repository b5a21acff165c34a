import { softmax } from "../../base/softmax.js";
import { evalMode, type Weights } from "../../nn/index.js";
import { emptyCache, free, noGrad, requirePrecision, scope, useCapturableStream } from "../../tensor/index.js";
import { padBatch } from "../../text/batch.js";
import type { Encoding, Tokenizer } from "../../text/encoding.js";
import { canPackOnCpu } from "../can-pack.js";
import { cpuFloat32, type DeviceConfig } from "../device-config.js";
import { forward, type Model } from "../model.js";
import { toModelInput } from "../model-input.js";
import type { Classifier, EagerClassifier } from "./classifier-interface.js";
import { checkOutputs } from "./finite-outputs.js";
import { castForInference, prepareForInference } from "./fused-weights.js";
import { createGraphClassifier } from "./graph-classifier.js";
import { batchByLength, batchByTokens } from "./inference-batches.js";

export const cpuBatchTokens = 2048;
const batchSizes = {
  cpu: { batchTokens: cpuBatchTokens, batchCost: 32 },
  gpu: { batchTokens: 98_304, batchCost: 4096 },
};

/** Batches have hundreds of sizes. A cache larger than this plus the weights is emptied. */
const maxCachedBytes = 256e6;
/** From this number of tokens on, packing the weights saves more time than it takes. */
const minTokensForPacking = 8192;

/** Creates an eager classifier without dropout. `expectedTokens` decides if packing pays. */
export function createEagerClassifier(
  model: Pick<Model, "architecture"> & { readonly tokenizer: Pick<Tokenizer, "special"> },
  weights: Weights,
  deviceConfig: DeviceConfig = cpuFloat32,
  expectedTokens = Number.POSITIVE_INFINITY,
): EagerClassifier {
  const { device, computeDtype, isQuantized = false } = deviceConfig;
  const { config } = model.architecture;
  const isLow = isQuantized || computeDtype === "bfloat16";
  if (device === "cpu" && isLow) requirePrecision(isQuantized ? "int8" : "bf16");
  const shouldPack = device === "cpu" && expectedTokens >= minTokensForPacking;
  // Tensors that need no change are shared with the caller.
  const packed =
    shouldPack && (computeDtype === "float32" || computeDtype === "bfloat16")
      ? prepareForInference(config, weights, isQuantized ? "int8" : computeDtype)
      : null;
  const preparedWeights =
    packed ?? (computeDtype === "float32" ? weights : castForInference(config, weights, computeDtype));
  const pack = packed && canPackOnCpu(config, deviceConfig) ? "always" : false;
  const cacheLimit = maxCachedBytes + [...weights.values()].reduce((sum, { numel }) => sum + 4 * numel, 0);
  return {
    weights: preparedWeights,
    numLabels: model.architecture.numLabels,
    padId: model.tokenizer.special.padId,
    ...batchSizes[device === "cpu" ? "cpu" : "gpu"],
    isPacked: pack !== false,
    async computeLogits(batch) {
      const values = scope(() =>
        noGrad(() => {
          const input = toModelInput(batch, config, device, pack);
          return forward(model.architecture, preparedWeights, input, evalMode).logits.toFloat32Array();
        }),
      );
      if (device === "cpu") emptyCache(cacheLimit);
      return values;
    },
    close() {
      const shared = new Set(weights.values());
      free([...preparedWeights.values()].filter((tensor) => !shared.has(tensor)));
    },
  };
}

/** Computes the logits of tokenized texts, in order. Yields to the event loop after each batch. */
export async function classify(
  classifier: Classifier,
  encodings: readonly Encoding[],
  onBatch?: (done: number) => void,
): Promise<Float32Array[]> {
  const { numLabels, depth = 1 } = classifier;
  const rows = new Array<Float32Array>(encodings.length);
  let done = 0;
  const pending: { batch: readonly number[]; values: Promise<Float32Array> }[] = [];
  const finish = async (): Promise<void> => {
    const { batch, values } = pending.shift()!;
    const logits = checkOutputs(await values);
    for (const [row, index] of batch.entries()) rows[index] = logits.subarray(row * numLabels, (row + 1) * numLabels);
    done += batch.length;
    onBatch?.(done);
  };
  try {
    for (const batch of splitIntoBatches(classifier, encodings)) {
      const texts = batch.map((index) => encodings[index]!);
      const values = classifier.computeLogits(padBatch(texts, classifier.padId));
      // finish() reports a failure later. Until then nobody awaits the promise.
      values.catch(() => undefined);
      pending.push({ batch, values });
      if (pending.length >= depth) await finish();
      await new Promise(setImmediate);
    }
    while (pending.length > 0) await finish();
    return rows;
  } finally {
    // After a failure, the caller may close the classifier immediately.
    await Promise.allSettled(pending.map(({ values }) => values));
  }
}

/** Creates the fastest classifier for a device. The session of an ONNX model stays open. */
export function createClassifier(
  model: Pick<Model, "architecture" | "tokenizer" | "session">,
  weights: Weights,
  deviceConfig: DeviceConfig = cpuFloat32,
  expectedTokens?: number,
): Classifier {
  if (model.session) return { ...model.session.classifier, close: () => undefined };
  const { device } = deviceConfig;
  // Select the stream before the first work, because streams do not wait for each other.
  if (device !== "cpu") useCapturableStream(device);
  const eager = createEagerClassifier(model, weights, deviceConfig, expectedTokens);
  return device === "cpu" ? eager : createGraphClassifier(model, eager, device);
}

function splitIntoBatches(classifier: Classifier, encodings: readonly Encoding[]): number[][] {
  const { isPacked = false, batchTokens, batchCost } = classifier;
  return isPacked ? batchByTokens(encodings, batchTokens) : batchByLength(encodings, batchTokens, batchCost);
}

/** Class probabilities of texts: row i of the result belongs to text i. */
export async function predictProbabilities(
  model: Pick<Model, "architecture" | "tokenizer" | "session">,
  weights: Weights,
  encodings: readonly Encoding[],
  deviceConfig: DeviceConfig = cpuFloat32,
  onBatch?: (done: number) => void,
): Promise<Float32Array[]> {
  const numTokens = encodings.reduce((sum, { ids }) => sum + ids.length, 0);
  const classifier = createClassifier(model, weights, deviceConfig, numTokens);
  try {
    return (await classify(classifier, encodings, onBatch)).map(softmax);
  } finally {
    classifier.close();
  }
}
