import type { Encoding } from "./encoding.js";

/** Texts side by side, row by row, padded to one length. */
export interface PaddedBatch {
  readonly batchSize: number;
  readonly sequenceLength: number;
  readonly ids: Int32Array; // [rows, length]
  readonly tokenTypeIds: Int32Array; // [rows, length]
  /** 1 where there is text, 0 where there is padding. */
  readonly attentionMask: Uint8Array; // [rows, length]
  readonly lengths: Int32Array; // [rows]
  /** How many of the rows * length tokens carry text. */
  readonly numTokens: number;
}

/** A length rounded up to a multiple, but not beyond max. */
export function bucketLength(length: number, multiple = 8, max = Number.POSITIVE_INFINITY): number {
  if (!(multiple >= 1)) throw new RangeError(`multiple: expected 1 or more, received ${multiple}`);
  return Math.max(length, Math.min(Math.ceil(length / multiple) * multiple, max));
}

/** Pads to the longest text, rounded up to a multiple but not beyond `most`, or to a given length. */
export function padBatch(
  encoded: readonly Encoding[],
  pad: number,
  options: { multiple?: number; most?: number; length?: number } = {},
): PaddedBatch {
  const rows = encoded.length;
  if (rows === 0) throw new RangeError("a batch needs at least one text");
  const lengths = Int32Array.from(encoded, (text) => text.ids.length);
  const longest = lengths.reduce((most, length) => Math.max(most, length), 0);
  const length = options.length ?? bucketLength(longest, options.multiple ?? 1, options.most);
  if (length < longest)
    throw new RangeError(`batch length: expected at least the longest text's ${longest}, received ${length}`);
  const ids = new Int32Array(rows * length).fill(pad);
  const types = new Int32Array(rows * length);
  const mask = new Uint8Array(rows * length);
  encoded.forEach((text, row) => {
    const start = row * length;
    ids.set(text.ids, start);
    types.set(text.tokenTypeIds, start);
    mask.fill(1, start, start + text.ids.length);
  });
  return {
    batchSize: rows,
    sequenceLength: length,
    ids,
    tokenTypeIds: types,
    attentionMask: mask,
    lengths,
    numTokens: lengths.reduce((sum, size) => sum + size, 0),
  };
}

/** How many batches are sorted together: more saves padding, fewer keeps the order closer to the shuffled one. */
const WINDOW_BATCHES = 50;

/**
 * Cuts a shuffled order of indices into batches of similar length: sorted by length within windows of some batches, then the
 * batches shuffled by `random`, uniform in [0, 1). Every index comes once; only one batch may be smaller than the others.
 */
export function bucketBatches(
  lengths: ArrayLike<number>,
  batchSize: number,
  order: Int32Array,
  random: () => number,
  window = WINDOW_BATCHES,
): Int32Array[] {
  if (!(Number.isInteger(batchSize) && batchSize >= 1))
    throw new RangeError(`batch size: expected a whole number from 1, received ${batchSize}`);
  const batches: Int32Array[] = [];
  for (let start = 0; start < order.length; start += window * batchSize) {
    const part = Array.from(order.subarray(start, start + window * batchSize));
    // The sort is stable: equally long texts stay in the shuffled order.
    const sorted = Int32Array.from(part.sort((first, second) => lengths[first]! - lengths[second]!));
    for (let at = 0; at < sorted.length; at += batchSize) batches.push(sorted.slice(at, at + batchSize));
  }
  for (let last = batches.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [batches[last], batches[other]] = [batches[other]!, batches[last]!];
  }
  return batches;
}
