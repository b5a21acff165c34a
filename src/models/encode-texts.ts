import { UserError } from "../errors.js";
import { evalMode } from "../nn/index.js";
import { noGrad, scope } from "../tensor/index.js";
import { padBatch } from "../text/batch.js";
import type { Encoding } from "../text/encoding.js";
import { extractFeatures, type Model } from "./model.js";
import { tokenizeFor, toModelInput } from "./model-input.js";

/** A text (or pair) as the model sees it and what it makes of it. */
export interface EncodedText<T> {
  readonly input: T;
  readonly ids: Int32Array;
  readonly tokens: readonly string[];
  /** The classification token's last-layer vector. */
  readonly feature: Float32Array;
  /** True where the text was longer than the model's maximum length and its end was cut. */
  readonly truncated: boolean;
}

export interface EncodeOptions {
  /** Texts in one forward pass. */
  readonly batchSize?: number;
  /** Told after each pass how many texts are done; they are given out when their window is. */
  readonly onProgress?: (done: number) => void;
}

/** Batches that are sorted by length together: enough to spare most padding, few enough to stay small. */
const windowBatches = 16;

/** Up to here padding costs less than another pass. */
const shortLength = 32;

/**
 * Features of texts, in the order they came. Memory is bounded however many there are: texts are read in windows, sorted by
 * length inside a window so that little is padded, and given out in the old order.
 */
export async function* encodeTexts<T extends { readonly texts: readonly string[] }>(
  model: Model,
  inputs: Iterable<T> | AsyncIterable<T>,
  options: EncodeOptions = {},
): AsyncGenerator<EncodedText<T>> {
  const batchSize = options.batchSize ?? 32;
  if (!(Number.isInteger(batchSize) && batchSize >= 1)) {
    throw new RangeError(`batchSize: expected a whole number from 1, received ${batchSize}`);
  }
  let done = 0;
  const count = (texts: number): void => {
    done += texts;
    options.onProgress?.(done);
  };
  let window: { input: T; encoded: Encoding }[] = [];
  for await (const input of inputs) {
    window.push({ input, encoded: tokenizeFor(model, input.texts) });
    if (window.length < windowBatches * batchSize) continue;
    yield* encodeWindow(model, window, batchSize, count);
    window = [];
  }
  yield* encodeWindow(model, window, batchSize, count);
}

function* encodeWindow<T>(
  model: Model,
  window: readonly { input: T; encoded: Encoding }[],
  batchSize: number,
  count: (texts: number) => void,
): Generator<EncodedText<T>, void, undefined> {
  const features: Float32Array[] = [];
  for (const indices of groupByLength(
    window.map(({ encoded }) => encoded.ids.length),
    batchSize,
  )) {
    const rows = computeClsFeatures(
      model,
      indices.map((index) => window[index]!.encoded),
    );
    rows.forEach((row, i) => {
      features[indices[i]!] = row;
    });
    count(indices.length);
  }
  for (const [index, { input, encoded }] of window.entries()) {
    const { ids, truncated } = encoded;
    yield { input, ids, tokens: model.tokenizer.idsToTokens(ids), feature: features[index]!, truncated };
  }
}

/** Indices in batches of similar length: no text is padded to much more than twice its own length. */
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

/** The classification token's last layer for a batch, whatever feature the model was trained with. */
function computeClsFeatures(model: Model, texts: readonly Encoding[]): Float32Array[] {
  const device = model.weights.values().next().value!.device;
  const width = model.architecture.config.hiddenSize;
  const values = scope(() =>
    noGrad(() => {
      const input = toModelInput(padBatch(texts, model.tokenizer.special.padId), device);
      return extractFeatures(
        { ...model.architecture, pooling: "cls" },
        model.weights,
        input,
        evalMode,
      ).toFloat32Array();
    }),
  );
  if (!values.every(Number.isFinite)) {
    throw new UserError(
      `${model.reference}: the model computes values that are not numbers; its weights are damaged: get them again`,
    );
  }
  return texts.map((_, row) => values.slice(row * width, (row + 1) * width));
}
