import type { Device } from "../../tensor/index.js";
import type { Encoding } from "../../text/encoding.js";

/** Limits the memory of poolings that pad the states of packed texts. */
const maxPaddingFactor = 16;

/** Groups texts into full batches, longest first. Very different lengths get smaller batches. */
export function batchByTokens(encodings: readonly Encoding[], batchTokens: number): number[][] {
  const { order, lengths } = sortByLength(encodings);
  const batches: number[][] = [];
  let batch: number[] = [];
  let tokens = Number.POSITIVE_INFINITY;
  for (const index of order) {
    const paddedTokens = (batch.length + 1) * (lengths[batch[0]!] ?? 0);
    if (tokens + lengths[index]! > batchTokens || paddedTokens > maxPaddingFactor * batchTokens) {
      batch = [];
      batches.push(batch);
      tokens = 0;
    }
    batch.push(index);
    tokens += lengths[index]!;
  }
  return batches;
}

/**
 * Groups texts of similar length, longest first, so that a lack of memory shows immediately.
 * Padding is only accepted if it costs less than another batch.
 */
export function batchByLength(
  encodings: readonly Encoding[],
  batchTokens: number,
  batchCost = Number.POSITIVE_INFINITY,
): number[][] {
  const batches: number[][] = [];
  let batch: number[] = [];
  let longest = 0;
  let padding = 0;
  const { order, lengths } = sortByLength(encodings);
  for (let i = 0; i < order.length; i++) {
    const index = order[i]!;
    const missing = longest - lengths[index]!;
    if (batch.length === 0 || (batch.length + 1) * longest > batchTokens || padding + missing > batchCost) {
      batch = [];
      batches.push(batch);
      longest = lengths[index]!;
      padding = 0;
    } else padding += missing;
    batch.push(index);
  }
  return batches;
}

/** The indices of texts, longest first, in a stable order. It counts, because a GPU waits for it. */
function sortByLength(encodings: readonly Encoding[]): { order: Int32Array; lengths: Int32Array } {
  const lengths = new Int32Array(encodings.length);
  let longest = 0;
  for (let i = 0; i < lengths.length; i++) {
    lengths[i] = encodings[i]!.ids.length;
    longest = Math.max(longest, lengths[i]!);
  }
  const places = new Int32Array(longest + 2); // by length: the next place in the order
  for (let i = 0; i < lengths.length; i++) places[lengths[i]!]!++;
  for (let length = longest, sum = 0; length >= 0; length--) {
    const count = places[length]!;
    places[length] = sum;
    sum += count;
  }
  const order = new Int32Array(lengths.length);
  for (let i = 0; i < lengths.length; i++) order[places[lengths[i]!]!++] = i;
  return { order, lengths };
}

/** Maximum tokens per forward pass if no gradients are computed. */
const inferenceTokens = { cpu: 4096, gpu: 65_536 };

export function batchForInference(encodings: readonly Encoding[], device: Device): number[][] {
  return batchByLength(encodings, inferenceTokens[device === "cpu" ? "cpu" : "gpu"]);
}
