import { evalMode } from "../../nn/index.js";
import { noGrad, scope } from "../../tensor/index.js";
import { padBatch } from "../../text/batch.js";
import type { Encoding } from "../../text/encoding.js";
import { extractFeatures, type Model } from "../model.js";
import { tokenizeAll, toModelInput } from "../model-input.js";
import { checkOutputs } from "./finite-outputs.js";

/** A text (or pair) with its tokens and its features. */
export interface EncodedText<T> {
  readonly input: T;
  readonly ids: Int32Array;
  readonly tokens: readonly string[];
  /** The hidden state of the classification token in the last layer. */
  readonly feature: Float32Array;
  /** True if the text was truncated to the maximum length of the model. */
  readonly truncated: boolean;
}

/** Batches that are sorted by length together: enough against padding, few enough for memory. */
const windowBatches = 16;

/** Up to this length, padding costs less than another forward pass. */
const shortLength = 32;

/** Computes features in order. Texts are sorted by length inside windows, so memory is bounded. */
export async function* encodeTexts<T extends { readonly texts: readonly string[] }>(
  model: Model,
  inputs: Iterable<T> | AsyncIterable<T>,
  options: { readonly batchSize?: number; readonly onProgress?: (done: number) => void } = {},
): AsyncGenerator<EncodedText<T>> {
  const batchSize = options.batchSize ?? 32;
  if (!(Number.isInteger(batchSize) && batchSize >= 1))
    throw new RangeError(`batchSize: expected a positive integer, received ${batchSize}`);
  let done = 0;
  const reportDone = (texts: number): void => {
    done += texts;
    options.onProgress?.(done);
  };
  let window: T[] = [];
  for await (const input of inputs) {
    window.push(input);
    if (window.length < windowBatches * batchSize) continue;
    yield* encodeWindow(model, window, batchSize, reportDone);
    window = [];
  }
  yield* encodeWindow(model, window, batchSize, reportDone);
}

function* encodeWindow<T extends { readonly texts: readonly string[] }>(
  model: Model,
  inputs: readonly T[],
  batchSize: number,
  reportDone: (texts: number) => void,
): Generator<EncodedText<T>, void, undefined> {
  const features: Float32Array[] = [];
  const encodings = tokenizeAll(
    model,
    inputs.map(({ texts }) => texts),
  );
  const lengths = encodings.map(({ ids }) => ids.length);
  for (const indices of groupByLength(lengths, batchSize)) {
    const texts = indices.map((index) => encodings[index]!);
    const rows = computeClsFeatures(model, texts);
    rows.forEach((row, i) => {
      features[indices[i]!] = row;
    });
    reportDone(indices.length);
  }
  for (const [index, input] of inputs.entries()) {
    const { ids, truncated } = encodings[index]!;
    yield { input, ids, tokens: model.tokenizer.idsToTokens(ids), feature: features[index]!, truncated };
  }
}

/** Groups indices by length. No text is padded to more than about twice its length. */
function groupByLength(lengths: readonly number[], batchSize: number): number[][] {
  const batches: number[][] = [];
  let longest = 0;
  for (const index of lengths.map((_, i) => i).sort((a, b) => lengths[a]! - lengths[b]!)) {
    const last = batches.at(-1);
    if (last && last.length < batchSize && lengths[index]! <= longest) last.push(index);
    else {
      batches.push([index]);
      longest = Math.max(shortLength, 2 * lengths[index]!);
    }
  }
  return batches;
}

/** Computes the last hidden state of the classification token, whichever pooling the model uses. */
function computeClsFeatures(model: Model, texts: readonly Encoding[]): Float32Array[] {
  const device = model.weights.values().next().value!.device;
  const architecture = { ...model.architecture, pooling: "cls" as const };
  const width = architecture.config.hiddenSize;
  const values = scope(() =>
    noGrad(() => {
      const input = toModelInput(padBatch(texts, model.tokenizer.special.padId), architecture.config, device);
      return checkOutputs(extractFeatures(architecture, model.weights, input, evalMode).toFloat32Array());
    }),
  );
  return texts.map((_, row) => values.slice(row * width, (row + 1) * width));
}
