import type { Encoding } from "./encoding.js";

/** Encoded texts, padded to one length. */
export interface PaddedBatch {
  readonly batchSize: number;
  readonly sequenceLength: number;
  readonly ids: Int32Array; // [batch, position]
  readonly tokenTypeIds: Int32Array; // [batch, position]
  /** 1 for tokens of the text, 0 for padding. */
  readonly attentionMask: Uint8Array; // [batch, position]
  readonly lengths: Int32Array; // [batch]
  /** The number of tokens that are not padding. */
  readonly numTokens: number;
}

/** Rounds a length up to a multiple, but not above `max`. */
export function bucketLength(length: number, multiple = 8, max = Number.POSITIVE_INFINITY): number {
  if (!(multiple >= 1)) throw new RangeError(`multiple: expected at least 1, received ${multiple}`);
  return Math.max(length, Math.min(Math.ceil(length / multiple) * multiple, max));
}

/**
 * Pads texts to a given length, or to the longest one rounded up to a multiple, but not above
 * `maxLength`.
 */
export function padBatch(
  encodings: readonly Encoding[],
  padId: number,
  options: { multiple?: number; maxLength?: number; length?: number } = {},
): PaddedBatch {
  const batchSize = encodings.length;
  if (batchSize === 0) throw new RangeError("a batch needs at least one text");
  const lengths = new Int32Array(batchSize);
  let [longest, numTokens] = [0, 0];
  for (let row = 0; row < batchSize; row++) {
    const { length } = encodings[row]!.ids;
    lengths[row] = length;
    longest = Math.max(longest, length);
    numTokens += length;
  }
  const sequenceLength = options.length ?? bucketLength(longest, options.multiple ?? 1, options.maxLength);
  if (sequenceLength < longest)
    throw new RangeError(`batch length: expected at least ${longest} (the longest text), received ${sequenceLength}`);
  const ids = new Int32Array(batchSize * sequenceLength).fill(padId);
  const tokenTypeIds = new Int32Array(batchSize * sequenceLength);
  const attentionMask = new Uint8Array(batchSize * sequenceLength);
  // Loops: a call per text and array takes longer than copying the few tokens of a text.
  for (let row = 0; row < batchSize; row++) {
    const start = row * sequenceLength;
    const { ids: tokens, tokenTypeIds: types } = encodings[row]!;
    for (let i = 0; i < tokens.length; i++) {
      ids[start + i] = tokens[i]!;
      tokenTypeIds[start + i] = types[i]!;
      attentionMask[start + i] = 1;
    }
  }
  return { batchSize, sequenceLength, ids, tokenTypeIds, attentionMask, lengths, numTokens };
}

/**
 * The number of batches that are sorted together. More batches need less padding; fewer keep the order more
 * random.
 */
const defaultWindow = 50;

/**
 * Splits a shuffled order of indices into batches of similar length. Indices are sorted by length
 * within windows of several batches, then the batches are shuffled with `random`, which returns
 * uniform numbers in [0, 1). Every index occurs once, and at most one batch is smaller.
 */
export function bucketBatches(
  lengths: ArrayLike<number>,
  batchSize: number,
  order: Int32Array,
  random: () => number,
  window = defaultWindow,
): Int32Array[] {
  if (!(Number.isInteger(batchSize) && batchSize >= 1))
    throw new RangeError(`batch size: expected a positive integer, received ${batchSize}`);
  const batches: Int32Array[] = [];
  for (let start = 0; start < order.length; start += window * batchSize) {
    const part = Array.from(order.subarray(start, start + window * batchSize));
    // The sort is stable, so texts of equal length stay in the shuffled order.
    const sorted = Int32Array.from(part.sort((first, second) => lengths[first]! - lengths[second]!));
    for (let from = 0; from < sorted.length; from += batchSize) batches.push(sorted.slice(from, from + batchSize));
  }
  for (let last = batches.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [batches[last], batches[other]] = [batches[other]!, batches[last]!];
  }
  return batches;
}
