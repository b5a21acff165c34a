import { cat, operator, scope, type Tensor, zeros } from "../tensor/index.js";
import type { PaddedBatch } from "../text/batch.js";

/**
 * The places of a padded batch's tokens if its texts follow each other without padding. Only
 * attention needs to know the texts; every other layer works on a list of tokens.
 */
export interface Packing {
  /** Rows of the flattened batch [batch * length] to keep: [token]. */
  readonly indices: Tensor;
  /** The first token of each text, and the end: [text + 1]. */
  readonly starts: Tensor;
  /** The same if each text has only its first token: [text + 1]. */
  readonly firstStarts: Tensor;
  /** The first token of each text of the batch: [batch]. */
  readonly firstTokens: Tensor;
  /** The length of the padded batch, which no text exceeds. */
  readonly maxLength: number;
}

/** The size of a packed batch: rounded, exact, or exact even if there is no padding. */
export type PackingSize = "rounded" | "exact" | "always";

/** Token counts are rounded up to one of this many sizes between two powers of two. */
const sizesPerOctave = 16;
const minTokenStep = 64;

/** Rounds a number of tokens up, so that few CUDA graphs serve all batches. */
export function roundTokens(tokens: number): number {
  const step = Math.max(minTokenStep, 2 ** Math.floor(Math.log2(tokens)) / sizesPerOctave);
  return Math.ceil(tokens / step) * step;
}

/** Packs a batch, with texts of padding up to a rounded size. Null if that saves nothing. */
export function packOnHost(
  { batchSize, sequenceLength, lengths, numTokens }: PaddedBatch,
  size: PackingSize = "rounded",
): {
  readonly indices: Int32Array;
  readonly starts: Int32Array;
  readonly firstStarts: Int32Array;
  readonly firstTokens: Int32Array;
} | null {
  const paddedTokens = batchSize * sequenceLength;
  const tokens = size === "rounded" ? Math.min(roundTokens(numTokens), paddedTokens) : numTokens;
  if (size !== "always" && tokens >= paddedTokens) return null;
  const indices = new Int32Array(tokens);
  // The largest number of extra texts for this number of tokens, so that shapes depend on it only.
  const extraTexts = Math.ceil((tokens - numTokens + sequenceLength) / sequenceLength);
  const maxExtraTexts = Math.max(extraTexts, Math.ceil(tokens / sizesPerOctave / sequenceLength) + 2);
  const starts = new Int32Array(batchSize + maxExtraTexts + 1).fill(tokens);
  const firstStarts = new Int32Array(starts.length).fill(batchSize);
  const firstTokens = new Int32Array(batchSize);
  let next = 0;
  for (let row = 0; row < batchSize; row++) {
    starts[row] = firstTokens[row] = next;
    firstStarts[row] = row;
    for (let i = 0; i < lengths[row]!; i++) indices[next++] = row * sequenceLength + i;
  }
  for (let text = batchSize, start = next; start < tokens; text++, start += sequenceLength) starts[text] = start;
  for (let row = 0; next < tokens && row < batchSize; row++)
    for (let i = lengths[row]!; next < tokens && i < sequenceLength; i++) indices[next++] = row * sequenceLength + i;
  return { indices, starts, firstStarts, firstTokens };
}

const indexCopyOp = operator<(self: Tensor, dim: number, index: Tensor, source: Tensor) => Tensor>("index_copy");

/**
 * Converts the starts to the type that the kernel reads. A forward pass does this itself, because a
 * captured graph may read only the staging buffers, which stay at the same address.
 */
export function toKernelPacking(packing: Packing): Packing {
  return { ...packing, starts: packing.starts.to("int32"), firstStarts: packing.firstStarts.to("int32") };
}

/** [batch, length, hidden] -> [1, token, hidden]. */
export function packTokens(hidden: Tensor, { indices }: Packing): Tensor {
  return scope(() => hidden.reshape(-1, hidden.size(-1)).indexSelect(0, indices).unsqueeze(0));
}

/** [1, token, hidden] -> [batch, length, hidden]. Positions that were left out are zero. */
export function unpackTokens(hidden: Tensor, { indices, firstTokens, maxLength }: Packing): Tensor {
  return scope(() => {
    const [batchSize, width] = [firstTokens.size(0), hidden.size(-1)];
    const all = zeros([batchSize * maxLength, width], { dtype: hidden.dtype, device: hidden.device });
    return indexCopyOp(all, 0, indices, hidden.squeeze(0)).reshape(batchSize, maxLength, width);
  });
}

export function duplicatePacking({ indices, starts, firstStarts, firstTokens, maxLength }: Packing): Packing {
  const [batchSize, tokens] = [firstTokens.size(0), indices.size(0)];
  const append = (first: Tensor, offset: number, skip: number): Tensor =>
    cat([first, first.narrow(0, skip, first.size(0) - skip).add(offset)], 0);
  return {
    indices: append(indices, batchSize * maxLength, 0),
    starts: append(starts, tokens, 1),
    firstStarts: append(firstStarts, batchSize, 1),
    firstTokens: append(firstTokens, tokens, 0),
    maxLength,
  };
}
