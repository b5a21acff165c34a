import { UserError } from "../errors.js";
import type { Rng } from "../tensor/index.js";
import { bucketBatches } from "../text/batch.js";
import type { Dataset } from "./dataset.js";
import type { TrainSettings } from "./settings.js";

/**
 * How examples are grouped into batches.
 * - shuffled: in random order.
 * - class-balanced: equally many of each class in every batch (RIFT's released code).
 * - single-class: one class per batch, in proportion to its frequency (RIFT, Algorithm 1, line 3).
 */
type BatchSampler = TrainSettings["batchSampler"];

/**
 * The batches of an epoch as positions in the dataset. They depend only on `rng`. Batches have
 * texts of similar length.
 */
export function createEpochBatches(
  dataset: Dataset,
  numLabels: number,
  sampler: BatchSampler,
  batchSize: number,
  rng: Rng,
): Int32Array[] {
  const shuffle = (positions: number[], name: string): Int32Array =>
    rng.fork("order", name).shuffle(Int32Array.from(positions));
  const batchRng = rng.fork("batches");
  const bucket = (positions: Int32Array): Int32Array[] =>
    bucketBatches(dataset.lengths, batchSize, positions, () => batchRng.next());
  if (sampler === "shuffled") return bucket(shuffle([...dataset.items.keys()], "all"));

  const byClass: number[][] = Array.from({ length: numLabels }, () => []);
  for (const [position, item] of dataset.items.entries()) byClass[item.example.label]?.push(position);
  const missing = byClass.findIndex((positions) => positions.length === 0);
  if (missing >= 0)
    throw new UserError(
      `train.batchSampler ${sampler}: the training data has no example of class ${missing}. ` +
        "Use batchSampler: shuffled, or data with every class.",
    );
  const shuffled = byClass.map((positions, label) => shuffle(positions, `class ${label}`));
  if (sampler === "single-class") return rng.fork("classes").shuffle(shuffled.flatMap(bucket));
  if (batchSize % numLabels !== 0)
    throw new UserError(
      `train.batchSampler class-balanced: the batch size must be a multiple of ${numLabels} classes, received ` +
        `${batchSize}. Use ${Math.ceil(batchSize / numLabels) * numLabels}.`,
    );
  return createBalancedBatches(dataset, shuffled, batchSize / numLabels, batchRng);
}

/** Batches that can be sorted by length together. */
const windowSize = 50;

/** Batches with the same number of examples of each class, until the smallest class is used up. */
function createBalancedBatches(
  dataset: Dataset,
  byClass: readonly Int32Array[],
  perClass: number,
  rng: Rng,
): Int32Array[] {
  const count = Math.floor(Math.min(...byClass.map((positions) => positions.length)) / perClass);
  if (count === 0)
    throw new UserError(
      `train.batchSampler class-balanced: a batch needs at least ${perClass} examples of every class. ` +
        "Use a smaller train.batchSize.",
    );
  const batches: Int32Array[] = [];
  for (let start = 0; start < count; start += windowSize) {
    const inWindow = Math.min(windowSize, count - start);
    const sorted = byClass.map((positions) =>
      positions
        .slice(start * perClass, (start + inWindow) * perClass)
        .sort((a, b) => dataset.lengths[a]! - dataset.lengths[b]!),
    );
    for (let i = 0; i < inWindow; i++)
      batches.push(
        Int32Array.from(sorted.flatMap((positions) => [...positions.subarray(i * perClass, (i + 1) * perClass)])),
      );
  }
  return rng.shuffle(batches);
}
