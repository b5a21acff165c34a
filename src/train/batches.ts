import { UserError } from "../base/errors.js";
import type { Rng } from "../tensor/index.js";
import { bucketBatches } from "../text/batch.js";
import type { TrainSettings } from "./settings.js";

/**
 * The batches of an epoch as positions in the dataset. Without `groupByLength`, the examples of a
 * batch are independent given the class, as RIFT's Lemma 1 assumes.
 */
export function createEpochBatches(
  dataset: {
    readonly items: readonly { readonly example: { readonly label: number } }[];
    readonly lengths: ArrayLike<number>;
  },
  numLabels: number,
  {
    batchSampler: sampler,
    batchSize,
    groupByLength,
  }: Pick<TrainSettings, "batchSampler" | "batchSize" | "groupByLength">,
  rng: Rng,
): Int32Array[] {
  const shuffle = (positions: number[], name: string): Int32Array =>
    rng.fork("order", name).shuffle(Int32Array.from(positions));
  const batchRng = rng.fork("batches");
  // Without grouping, a constant length keeps the shuffled order within a window.
  const lengths = groupByLength ? dataset.lengths : new Int32Array(dataset.items.length);
  const bucket = (positions: Int32Array): Int32Array[] =>
    bucketBatches(lengths, batchSize, positions, () => batchRng.next());
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
      `train.batchSampler ${sampler}: the batch size must be a multiple of ${numLabels} classes, received ` +
        `${batchSize}. Use ${Math.ceil(batchSize / numLabels) * numLabels}.`,
    );
  const perClass = batchSize / numLabels;
  if (sampler === "undersampled") return createBalancedBatches(lengths, shuffled, perClass, batchRng);
  const perEpoch = Math.ceil(dataset.items.length / batchSize) * perClass;
  const repeated = shuffled.map((positions, label) => {
    const passes = [positions];
    for (let count = positions.length; count < perEpoch; count += positions.length)
      passes.push(rng.fork("order", `class ${label}`, passes.length).shuffle(positions.slice()));
    return Int32Array.from(passes.flatMap((pass) => [...pass]).slice(0, perEpoch));
  });
  return createBalancedBatches(lengths, repeated, perClass, batchRng);
}

/** Batches that can be sorted by length together. */
const windowSize = 50;

/** Batches with the same number of examples of each class, until the smallest class is used up. */
function createBalancedBatches(
  lengths: ArrayLike<number>,
  byClass: readonly Int32Array[],
  perClass: number,
  rng: Rng,
): Int32Array[] {
  const count = Math.floor(Math.min(...byClass.map((positions) => positions.length)) / perClass);
  if (count === 0)
    throw new UserError(
      `train.batchSampler undersampled: a batch needs at least ${perClass} examples of every class. ` +
        "Use a smaller train.batchSize, or batchSampler: class-balanced, which repeats examples.",
    );
  const batches: Int32Array[] = [];
  for (let start = 0; start < count; start += windowSize) {
    const inWindow = Math.min(windowSize, count - start);
    const sorted = byClass.map((positions) =>
      positions.slice(start * perClass, (start + inWindow) * perClass).sort((a, b) => lengths[a]! - lengths[b]!),
    );
    for (let i = 0; i < inWindow; i++)
      batches.push(
        Int32Array.from(sorted.flatMap((positions) => [...positions.subarray(i * perClass, (i + 1) * perClass)])),
      );
  }
  return rng.shuffle(batches);
}
