import { UserError } from "../errors.js";
import type { Rng } from "../tensor/index.js";
import { bucketBatches } from "../text/batch.js";
import type { Dataset } from "./dataset.js";

/**
 * shuffled: as they come. balanced: every class equally in every batch (RIFT's code). one-class: a batch holds one class, drawn in
 * proportion to its share (RIFT, Algorithm 1, line 3).
 */
export type BatchSampler = "shuffled" | "class-balanced" | "single-class";

/** The batches of an epoch: positions in the data set, decided by the stream alone. Texts of similar length lie together. */
export function createEpochBatches(
  dataset: Dataset,
  classes: number,
  mode: BatchSampler,
  size: number,
  rng: Rng,
): Int32Array[] {
  const order = (positions: number[], name: string): Int32Array =>
    rng.fork("order", name).shuffle(Int32Array.from(positions));
  const random = rng.fork("batches");
  const bucket = (positions: Int32Array, rows: number): Int32Array[] =>
    bucketBatches(dataset.lengths, rows, positions, () => random.next());
  if (mode === "shuffled") return bucket(order([...dataset.items.keys()], "all"), size);

  const byClass: number[][] = Array.from({ length: classes }, () => []);
  for (const [position, item] of dataset.items.entries()) byClass[item.example.label]?.push(position);
  const missing = byClass.findIndex((positions) => positions.length === 0);
  if (missing >= 0)
    throw new UserError(
      `batches ${mode}: the training data holds no example of class ${missing}; use batchSampler: shuffled, or data with every class`,
    );
  const streams = byClass.map((positions, label) => order(positions, `class ${label}`));
  if (mode === "single-class") {
    const batches = streams.flatMap((positions) => bucket(positions, size));
    return rng.fork("classes").shuffle(batches);
  }
  if (size % classes !== 0)
    throw new UserError(
      `batchSampler class-balanced: expected a batch size that ${classes} classes divide evenly, received ${size}; use ${Math.ceil(size / classes) * classes}`,
    );
  return createBalancedBatches(dataset, streams, size / classes, random);
}

/** Equally many of each class, classes one after the other; ends with the smallest class. Within a window, long goes with long. */
function createBalancedBatches(
  dataset: Dataset,
  streams: readonly Int32Array[],
  each: number,
  random: Rng,
): Int32Array[] {
  const count = Math.floor(Math.min(...streams.map((stream) => stream.length)) / each);
  if (count === 0)
    throw new UserError(
      `batchSampler class-balanced: expected at least ${each} examples of every class for one batch; use a smaller batch size`,
    );
  const window = 50;
  const batches: Int32Array[] = [];
  for (let start = 0; start < count; start += window) {
    const inWindow = Math.min(window, count - start);
    const sorted = streams.map((stream) =>
      stream
        .slice(start * each, (start + inWindow) * each)
        .sort((a, b) => (dataset.lengths[a] ?? 0) - (dataset.lengths[b] ?? 0)),
    );
    for (let i = 0; i < inWindow; i++)
      batches.push(Int32Array.from(sorted.flatMap((stream) => [...stream.subarray(i * each, (i + 1) * each)])));
  }
  return random.shuffle(batches);
}
