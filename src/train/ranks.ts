import type { ProcessGroup } from "../tensor/index.js";

/**
 * The processes of a data-parallel training, as in PyTorch's DistributedDataParallel: each computes
 * the gradients of its share of a batch, and the mean of all gradients updates the weights.
 */
export type Ranks = Pick<
  ProcessGroup,
  "rank" | "size" | "average_" | "broadcast_" | "gatherBytes" | "exchange" | "any" | "waitedSeconds"
>;

/** A training in one process. Nothing is exchanged. */
export const singleRank: Ranks = {
  rank: 0,
  size: 1,
  average_() {},
  broadcast_() {},
  gatherBytes: (bytes) => [bytes],
  exchange: (value) => [value],
  any: (flag) => flag,
  waitedSeconds: 0,
};

/**
 * The share of a batch that one process computes: every n-th example. All shares have the same size:
 * if a batch cannot be divided, its first examples are used again, as by PyTorch's
 * DistributedSampler.
 */
export function selectShare(batch: Int32Array, { rank, size }: Pick<Ranks, "rank" | "size">): Int32Array {
  const count = Math.ceil(batch.length / size);
  return Int32Array.from({ length: count }, (_, i) => batch[(rank + i * size) % batch.length]!);
}

/** Rows that are exchanged at once, so that little memory is needed. */
const rowsPerExchange = 64;

/** Computes a row per item. Each process computes every n-th one, and all get all rows. */
export async function computeRows<T>(
  ranks: Ranks,
  items: readonly T[],
  compute: (items: readonly T[]) => Promise<readonly Float32Array[]>,
): Promise<readonly Float32Array[]> {
  const { rank, size } = ranks;
  if (size === 1) return compute(items);
  const share = items.filter((_, i) => i % size === rank);
  const own = share.length === 0 ? [] : await compute(share);
  const all: Float32Array[] = [];
  for (let start = 0; start * size < items.length; start += rowsPerExchange) {
    const sent = own.slice(start, start + rowsPerExchange);
    const lengths = ranks.exchange(sent.map((row) => row.length));
    const received = ranks.gatherBytes(
      Buffer.concat(sent.map((row) => new Uint8Array(row.buffer, row.byteOffset, row.byteLength))),
    );
    for (const [other, bytes] of received.entries()) {
      let offset = bytes.byteOffset;
      for (const [i, length] of lengths[other]!.entries()) {
        all[(start + i) * size + other] = new Float32Array(bytes.buffer, offset, length);
        offset += 4 * length;
      }
    }
  }
  return all;
}
