import fc from "fast-check";
import { expect, test } from "vitest";
import { Rng } from "../../src/base/rng.js";
import { toHostBatch } from "../../src/train/batch-transfer.js";
import { createEpochBatches } from "../../src/train/batches.js";
import type { Dataset, TrainingJob, TrainSettings } from "../../src/train/index.js";

/** A dataset in which only lengths and labels matter. */
function createDataset(items: readonly { length: number; label: number }[]): Dataset {
  return {
    items: items.map(({ length, label }, i) => ({
      example: { id: String(i), texts: [""], label },
      encoding: { ids: new Int32Array(length), tokenTypeIds: new Int32Array(length), truncated: false },
    })),
    lengths: Int32Array.from(items, ({ length }) => length),
    truncatedCount: 0,
  };
}

const classes = 3;
const data = fc
  .array(fc.record({ length: fc.integer({ min: 2, max: 60 }), label: fc.integer({ min: 0, max: classes - 1 }) }), {
    minLength: 12,
    maxLength: 400,
  })
  // Every class has at least four examples.
  .map((items) => createDataset(items.map((item, i) => (i < 12 ? { ...item, label: i % classes } : item))));
const sizes = fc.integer({ min: 1, max: 40 });
const seeds = fc.integer({ min: 0, max: 1000 });

const sortPositions = (batches: readonly Int32Array[]): number[] =>
  batches.flatMap((batch) => [...batch]).sort((a, b) => a - b);
const getLabel = (dataset: Dataset, position: number): number => dataset.items[position]!.example.label;

/** The batches of an epoch with the default settings. */
const createBatches = (
  dataset: Dataset,
  count: number,
  batchSampler: TrainSettings["batchSampler"],
  batchSize: number,
  seed: number,
  groupByLength = true,
): Int32Array[] => createEpochBatches(dataset, count, { batchSampler, batchSize, groupByLength }, new Rng(seed));

// RIFT's Lemma 1 assumes that the negatives of an example are independent of it, given the class.
test.each(["shuffled", "class-balanced", "single-class"] as const)(
  "%s batches without grouping have every example once, and lengths that do not depend on the batch",
  (mode) => {
    const rng = new Rng(3);
    const dataset = createDataset(
      Array.from({ length: 1200 }, (_, i) => ({ length: 2 + rng.integer(60), label: i % classes })),
    );
    const spread = (groupByLength: boolean): number => {
      const batches = createBatches(dataset, classes, mode, 12, 5, groupByLength);
      expect(sortPositions(batches)).toEqual([...dataset.items.keys()]);
      const centers = batches.map((batch) => batch.reduce((sum, i) => sum + dataset.lengths[i]!, 0) / batch.length);
      const center = centers.reduce((sum, value) => sum + value, 0) / centers.length;
      return centers.reduce((sum, value) => sum + (value - center) ** 2, 0) / centers.length;
    };
    // Means of 12 independent lengths from 2 to 61 have the variance 300 / 12 = 25.
    expect(spread(false)).toBeGreaterThan(12);
    expect(spread(false)).toBeLessThan(45);
    expect(spread(true)).toBeGreaterThan(200);
  },
);

test("shuffled batches have every example once, and at most one is not full", () => {
  fc.assert(
    fc.property(data, sizes, seeds, (dataset, size, seed) => {
      const batches = createBatches(dataset, classes, "shuffled", size, seed);
      expect(sortPositions(batches)).toEqual([...dataset.items.keys()]);
      expect(batches.filter((batch) => batch.length !== size).length).toBeLessThanOrEqual(1);
    }),
  );
});

test("single-class batches have every example once and one class per batch", () => {
  fc.assert(
    fc.property(data, sizes, seeds, (dataset, size, seed) => {
      const batches = createBatches(dataset, classes, "single-class", size, seed);
      expect(sortPositions(batches)).toEqual([...dataset.items.keys()]);
      const counts = new Array<number>(classes).fill(0);
      for (const batch of batches) {
        const [label, ...more] = new Set([...batch].map((position) => getLabel(dataset, position)));
        expect(more).toEqual([]);
        counts[label!]!++;
      }
      const classSizes = Array.from(
        { length: classes },
        (_, label) => dataset.items.filter((item) => item.example.label === label).length,
      );
      expect(counts).toEqual(classSizes.map((count) => Math.ceil(count / size)));
    }),
  );
});

test("class-balanced batches repeat rare classes, so that an epoch has as many steps as a shuffled one", () => {
  fc.assert(
    fc.property(data, fc.integer({ min: 1, max: 4 }), seeds, (dataset, each, seed) => {
      const batches = createBatches(dataset, classes, "class-balanced", each * classes, seed);
      expect(batches).toHaveLength(createBatches(dataset, classes, "shuffled", each * classes, seed).length);
      const times = new Map<number, number>();
      for (const batch of batches) {
        const labels = [...batch].map((position) => getLabel(dataset, position));
        for (let label = 0; label < classes; label++)
          expect(labels.filter((other) => other === label)).toHaveLength(each);
        for (const position of batch) times.set(position, (times.get(position) ?? 0) + 1);
      }
      // No example is used twice more often than another of its class.
      for (let label = 0; label < classes; label++) {
        const counts = [...dataset.items.keys()]
          .filter((position) => getLabel(dataset, position) === label)
          .map((position) => times.get(position) ?? 0);
        expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
      }
    }),
  );
});

test("class-balanced batches of equally frequent classes are those without repetition", () => {
  const dataset = createDataset(Array.from({ length: 600 }, (_, i) => ({ length: 2 + (i % 50), label: i % classes })));
  const create = (sampler: "class-balanced" | "undersampled") =>
    createBatches(dataset, classes, sampler, 10 * classes, 1);
  expect(create("class-balanced")).toEqual(create("undersampled"));
});

test("undersampled batches have equally many examples of each class, and none twice", () => {
  fc.assert(
    fc.property(data, fc.integer({ min: 1, max: 4 }), seeds, (dataset, each, seed) => {
      const batches = createBatches(dataset, classes, "undersampled", each * classes, seed);
      const used = sortPositions(batches);
      expect(new Set(used).size).toBe(used.length);
      for (const batch of batches) {
        const labels = [...batch].map((position) => getLabel(dataset, position));
        for (let label = 0; label < classes; label++)
          expect(labels.filter((other) => other === label)).toHaveLength(each);
      }
      const smallest = Math.min(
        ...Array.from({ length: classes }, (_, label) => dataset.items.filter((i) => i.example.label === label).length),
      );
      expect(batches).toHaveLength(Math.floor(smallest / each));
    }),
  );
});

test("batches depend only on the random stream", () => {
  const dataset = createDataset(
    Array.from({ length: 300 }, (_, i) => ({ length: 2 + ((i * 7) % 50), label: i % classes })),
  );
  for (const mode of ["shuffled", "class-balanced", "single-class"] as const) {
    const batches = (seed: number): Int32Array[] => createBatches(dataset, classes, mode, 30, seed);
    expect(batches(1)).toEqual(batches(1));
    expect(batches(1)).not.toEqual(batches(2));
  }
});

test("the error for impossible batches says what to do", () => {
  const dataset = createDataset([
    { length: 3, label: 0 },
    { length: 3, label: 1 },
    { length: 3, label: 1 },
  ]);
  const batches = (mode: "class-balanced" | "undersampled" | "single-class", size: number, count = 2) =>
    createBatches(dataset, count, mode, size, 0);
  expect(() => batches("class-balanced", 3)).toThrow("must be a multiple of 2 classes, received 3. Use 4.");
  expect(() => batches("undersampled", 4)).toThrow("at least 2 examples of every class");
  expect(() => batches("single-class", 2, 3)).toThrow("no example of class 2. Use batchSampler: shuffled");
});

test("GPU batches have few lengths, none longer than the model supports", () => {
  const item = (length: number) => ({
    example: { id: String(length), texts: [""], label: 0 },
    encoding: { ids: new Int32Array(length).fill(5), tokenTypeIds: new Int32Array(length), truncated: false },
  });
  const padOnGpu = (maxLength: number, length: number): number => {
    const train = { items: [item(length)], lengths: Int32Array.of(length), truncatedCount: 0, maxLength };
    const model = { tokenizer: { special: { padId: 0 } } };
    const job = { train, model, deviceConfig: { device: "cuda:0", computeDtype: "float32" } } as unknown as TrainingJob;
    return toHostBatch(job, Int32Array.of(0)).padded.sequenceLength;
  };
  expect([3, 16, 17, 33, 40].map((length) => padOnGpu(40, length))).toEqual([16, 16, 32, 40, 40]);
  expect(padOnGpu(512, 512)).toBe(512);
});
