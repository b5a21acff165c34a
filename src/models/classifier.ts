import { evalMode, mapWeights, type Weights } from "../nn/index.js";
import {
  type DataType,
  type Device,
  emptyCache,
  free,
  getMemoryStats,
  keep,
  noGrad,
  scope,
  useRecordableStream,
} from "../tensor/index.js";
import { type PaddedBatch, padBatch } from "../text/batch.js";
import type { Encoding } from "../text/encoding.js";
import type { EncoderConfig } from "./config.js";
import { createGraphClassifier } from "./graph-classifier.js";
import { packForInference } from "./inference-weights.js";
import { forward, type Model } from "./model.js";
import { toModelInput } from "./model-input.js";

/** Where and in which type a model is computed. */
export interface DeviceConfig {
  readonly device: Device;
  readonly computeDtype: DataType;
}

export const cpuFloat32: DeviceConfig = { device: "cpu", computeDtype: "float32" };

/** Computes one batch after the other: operator by operator, or as a captured graph. */
export interface Classifier {
  readonly numLabels: number;
  /** The token that fills rows up. */
  readonly padId: number;
  /** Tokens a batch holds at most, padding included: enough to fill the machine, little enough to stay in its cache. */
  readonly batchTokens: number;
  /** Tokens of padding that cost as much as one batch more. */
  readonly batchCost: number;
  /** Batches that may be under way at once; 1 where left out. */
  readonly depth?: number;
  /** Class probabilities, row by row. The work starts with the call. */
  probabilities(batch: PaddedBatch): Promise<Float32Array>;
  /** Frees what it holds beside the weights it was given. */
  close(): void;
}

const batchSizes = {
  cpu: { batchTokens: 2048, batchCost: 32 },
  gpu: { batchTokens: 65_536, batchCost: 4096 },
};

/** Batches come in hundreds of sizes: beyond so much and the weights' own size, memory kept for the next batch is given back. */
const maxCachedBytes = 256e6;

/** Computes operator by operator, with weights that others may share. */
export interface EagerClassifier extends Classifier {
  readonly weights: Weights;
}

/** From so many tokens on, what packed weights save is more than the packing takes. */
const minTokensForPacking = 8192;

/**
 * A model as a classifier: no gradients, no dropout, its weights in the form it computes with. `expectedTokens`: what it will be asked
 * for, where that is known.
 */
export function createEagerClassifier(
  model: Pick<Model, "architecture" | "tokenizer">,
  weights: Weights,
  { device, computeDtype: compute }: DeviceConfig = cpuFloat32,
  expectedTokens = Number.POSITIVE_INFINITY,
): EagerClassifier {
  const preparedWeights = prepareWeights(
    model.architecture.config,
    weights,
    { device, computeDtype: compute },
    expectedTokens >= minTokensForPacking,
  );
  const maxKept = maxCachedBytes + [...weights.values()].reduce((sum, { numel: elements }) => sum + 4 * elements, 0);
  return {
    weights: preparedWeights,
    numLabels: model.architecture.numLabels,
    padId: model.tokenizer.special.padId,
    ...batchSizes[device === "cpu" ? "cpu" : "gpu"],
    async probabilities(batch) {
      const values = scope(() =>
        noGrad(() =>
          forward(model.architecture, preparedWeights, toModelInput(batch, device), evalMode)
            .logits.softmax(-1)
            .toFloat32Array(),
        ),
      );
      if (device === "cpu" && getMemoryStats().cachedBytes > maxKept) emptyCache();
      return values;
    },
    close() {
      const shared = new Set(weights.values());
      free([...preparedWeights.values()].filter((tensor) => !shared.has(tensor)));
    },
  };
}

/** The weights in the form that they are computed with; what needs no change is shared. */
function prepareWeights(
  config: EncoderConfig,
  weights: Weights,
  { device, computeDtype: compute }: DeviceConfig,
  pack: boolean,
): Weights {
  if (compute !== "float32") return noGrad(() => keep(mapWeights(weights, (tensor) => tensor.to(compute))));
  return pack && device === "cpu" ? (packForInference(config, weights) ?? weights) : weights;
}

/** Class probabilities of encoded texts, in their order; the event loop gets a turn after each batch. */
export async function classify(
  classifier: Classifier,
  encoded: readonly Encoding[],
  onBatch?: (done: number) => void,
): Promise<Float32Array[]> {
  const { numLabels: classes, depth = 1 } = classifier;
  const rows = new Array<Float32Array>(encoded.length);
  let done = 0;
  const underWay: { batch: readonly number[]; values: Promise<Float32Array> }[] = [];
  const finish = async (): Promise<void> => {
    const { batch, values } = underWay.shift()!;
    const found = await values;
    for (const [row, index] of batch.entries()) rows[index] = found.slice(row * classes, (row + 1) * classes);
    done += batch.length;
    onBatch?.(done);
  };
  try {
    for (const batch of batchByLength(encoded, classifier.batchTokens, classifier.batchCost)) {
      const texts = batch.map((index) => encoded[index]!);
      const values = classifier.probabilities(padBatch(texts, classifier.padId));
      // What goes wrong is told in its turn; until then nobody waits for it.
      values.catch(() => undefined);
      underWay.push({ batch, values });
      if (underWay.length >= depth) await finish();
      await new Promise(setImmediate);
    }
    while (underWay.length > 0) await finish();
    return rows;
  } finally {
    // Who is told of a failure may close the classifier at once.
    await Promise.allSettled(underWay.map(({ values }) => values));
  }
}

/** The fastest way to compute a model where it lies. */
export function createClassifier(
  model: Pick<Model, "architecture" | "tokenizer">,
  weights: Weights,
  placement: DeviceConfig = cpuFloat32,
  expectedTokens?: number,
): Classifier {
  if (placement.device === "cpu") return createEagerClassifier(model, weights, placement, expectedTokens);
  // Before the first work on the weights: streams do not wait for each other.
  useRecordableStream(placement.device);
  return createGraphClassifier(
    model,
    createEagerClassifier(model, weights, placement, expectedTokens),
    placement.device,
  );
}

/**
 * Indices in batches of like length, longest first, so that too little memory shows at once. Texts of other lengths share a batch
 * only while the padding costs less than another batch: most batches have none, and then no bias and no mask either.
 */
export function batchByLength(
  encoded: readonly Encoding[],
  batchTokens: number,
  batchCost = Number.POSITIVE_INFINITY,
): number[][] {
  const getLength = (index: number): number => encoded[index]!.ids.length;
  const order = [...encoded.keys()].sort((a, b) => getLength(b) - getLength(a) || a - b);
  const batches: number[][] = [];
  let batch: number[] = [];
  let longest = 0;
  let padding = 0;
  for (const index of order) {
    const short = longest - getLength(index);
    if (batch.length === 0 || (batch.length + 1) * longest > batchTokens || padding + short > batchCost) {
      batch = [];
      batches.push(batch);
      longest = getLength(index);
      padding = 0;
    } else padding += short;
    batch.push(index);
  }
  return batches;
}
