import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import { classify } from "../../src/models/inference/classifier.js";
import type { Classifier } from "../../src/models/inference/classifier-interface.js";
import { padToBucket } from "../../src/models/inference/graph-classifier.js";
import { batchByLength, batchByTokens } from "../../src/models/inference/inference-batches.js";
import { duplicatePacking, packOnHost, packTokens, roundTokens, unpackTokens } from "../../src/models/packing.js";
import { scope, tensor } from "../../src/tensor/index.js";
import { padBatch } from "../../src/text/batch.js";
import type { Encoding } from "../../src/text/encoding.js";

const createTexts = (lengths: readonly number[]): Encoding[] =>
  lengths.map((length) => ({ ids: new Int32Array(length), tokenTypeIds: new Int32Array(length), truncated: false }));

test("batches contain every text once, respect the token limit, and limit padding to the cost of a batch", () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 60 }),
      fc.integer({ min: 1, max: 300 }),
      fc.integer({ min: 0, max: 50 }),
      (lengths, tokens, cost) => {
        const batches = batchByLength(createTexts(lengths), tokens, cost);
        expect(batches.flat().sort((a, b) => a - b)).toEqual(lengths.map((_, i) => i));
        let previousLength = Number.POSITIVE_INFINITY;
        for (const batch of batches) {
          const longest = Math.max(...batch.map((i) => lengths[i]!));
          expect(longest).toBeLessThanOrEqual(previousLength);
          previousLength = longest;
          if (batch.length > 1) expect(batch.length * longest).toBeLessThanOrEqual(tokens);
          expect(batch.reduce((sum, i) => sum + longest - lengths[i]!, 0)).toBeLessThanOrEqual(cost);
        }
      },
    ),
  );
});

test("texts of different lengths share a batch only if padding is allowed", () => {
  expect(batchByLength(createTexts([3, 5, 3, 5, 5]), 10, 0)).toEqual([[1, 3], [4], [0, 2]]);
  expect(batchByLength(createTexts([3, 5, 3, 5, 5]), 100, 4)).toEqual([[1, 3, 4, 0, 2]]);
  expect(batchByLength([], 10)).toEqual([]);
});

test("batches without padding contain every text once, and all but the last are full", () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 60 }),
      fc.integer({ min: 40, max: 300 }),
      (lengths, tokens) => {
        const batches = batchByTokens(createTexts(lengths), tokens);
        expect(batches.flat().sort((a, b) => a - b)).toEqual(lengths.map((_, i) => i));
        for (const [i, batch] of batches.entries()) {
          const size = batch.reduce((sum, index) => sum + lengths[index]!, 0);
          expect(size).toBeLessThanOrEqual(tokens);
          const next = batches[i + 1]?.[0];
          if (next !== undefined) expect(size + lengths[next]!).toBeGreaterThan(tokens);
        }
      },
    ),
  );
});

test("batches without padding need little memory if their states are padded", () => {
  const lengths = [100, ...Array.from({ length: 500 }, () => 1)];
  const batches = batchByTokens(createTexts(lengths), 1000);
  expect(batches.map(({ length }) => length)).toEqual([160, 341]);
});

test("padToBucket never exceeds the maximum length of the model", () => {
  for (const length of [508, 511, 512]) {
    const ids = new Int32Array(length).fill(5);
    expect(
      padToBucket(padBatch([{ ids, tokenTypeIds: new Int32Array(length), truncated: true }], 0), 0, 512),
    ).toMatchObject({ batchSize: 8, sequenceLength: 512 });
  }
});

test("classify rejects only after all pending batches have finished", async () => {
  const createEncoding = (length: number) => ({
    ids: new Int32Array(length).fill(5),
    tokenTypeIds: new Int32Array(length),
    truncated: false,
  });
  let pending = 0;
  const classifier = (failing: number): Classifier => ({
    numLabels: 1,
    padId: 0,
    batchTokens: 1,
    batchCost: 0,
    depth: 2,
    async computeLogits(batch) {
      pending++;
      await new Promise((resolve) => setTimeout(resolve, batch.sequenceLength === failing ? 0 : 20));
      pending--;
      if (batch.sequenceLength === failing) throw new Error("no memory");
      return new Float32Array(batch.batchSize);
    },
    close() {},
  });
  const texts = [30, 20, 10].map(createEncoding);
  for (const failing of [30, 20, 10]) {
    await expect(classify(classifier(failing), texts)).rejects.toThrow("no memory");
    expect(pending).toBe(0);
  }
  const stop = (): void => {
    throw new Error("stopped");
  };
  await expect(classify(classifier(0), texts, stop)).rejects.toThrow("stopped");
  expect(pending).toBe(0);
});

function createBatch(lengths: readonly number[], length: number) {
  const encodings = lengths.map((size) => ({
    ids: new Int32Array(size).fill(5),
    tokenTypeIds: new Int32Array(size),
    truncated: false,
  }));
  return padBatch(encodings as never, 0, { length });
}

const batches = fc
  .tuple(fc.integer({ min: 1, max: 200 }), fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 60 }))
  .map(([length, lengths]) =>
    createBatch(
      lengths.map((size) => 1 + (size % length)),
      length,
    ),
  );

describe("packing", () => {
  it.each(["rounded", "exact", "always"] as const)(
    "keeps every token once, in order, with a size that is %s",
    (size) => {
      fc.assert(
        fc.property(batches, (batch) => {
          const packing = packOnHost(batch, size);
          const rounded = Math.min(roundTokens(batch.numTokens), batch.ids.length);
          const expectedTokens = size === "rounded" ? rounded : batch.numTokens;
          if (!packing) {
            expect(size).not.toBe("always");
            expect(expectedTokens).toBeGreaterThanOrEqual(batch.ids.length);
            return;
          }
          const { indices, starts, firstStarts, firstTokens } = packing;
          const tokens = [...batch.attentionMask.keys()].filter((i) => batch.attentionMask[i]);
          expect([...indices.subarray(0, batch.numTokens)]).toEqual(tokens);
          expect(new Set(indices).size).toBe(indices.length);
          expect(indices.length).toBe(expectedTokens);
          for (let text = 0; text + 1 < starts.length; text++) {
            const size = starts[text + 1]! - starts[text]!;
            expect(size).toBeGreaterThanOrEqual(0);
            expect(size).toBeLessThanOrEqual(batch.sequenceLength);
            if (text < batch.batchSize) expect(size).toBe(batch.lengths[text]);
            expect(firstStarts[text + 1]! - firstStarts[text]!).toBe(text < batch.batchSize ? 1 : 0);
          }
          expect(starts.at(-1)).toBe(indices.length);
          expect([...firstTokens]).toEqual([...starts.subarray(0, batch.batchSize)]);
        }),
        { numRuns: 200 },
      );
    },
  );

  it("arrays of batches with the same rounded size have the same shapes", () => {
    const shapes = [70, 71, 90, 127].map((total) => {
      const packing = packOnHost(createBatch([40, total - 40], 128))!;
      return Object.values(packing).map((values) => values.length);
    });
    expect(new Set(shapes.map((shape) => JSON.stringify(shape))).size).toBe(1);
  });

  it("packs and unpacks hidden states, also of a duplicated batch", () => {
    const batch = createBatch([3, 70, 2], 80);
    const host = packOnHost(batch)!;
    scope(() => {
      const toTensor = (values: Int32Array) => tensor(values, [values.length]);
      const packing = {
        indices: toTensor(host.indices),
        starts: toTensor(host.starts),
        firstStarts: toTensor(host.firstStarts),
        firstTokens: toTensor(host.firstTokens),
        maxLength: 80,
      };
      const hidden = tensor(
        Float32Array.from({ length: 3 * 80 * 2 }, (_, i) => i),
        [3, 80, 2],
      );
      const unpacked = unpackTokens(packTokens(hidden, packing), packing).toFloat32Array();
      const expected = hidden.toFloat32Array();
      for (const [i, isToken] of batch.attentionMask.entries())
        if (isToken) expect([unpacked[2 * i], unpacked[2 * i + 1]]).toEqual([expected[2 * i], expected[2 * i + 1]]);
      const twice = duplicatePacking(packing);
      const tokens = host.indices.length;
      expect([...twice.starts.toInt32Array()].slice(0, host.starts.length)).toEqual([...host.starts]);
      expect([...twice.starts.toInt32Array()].slice(host.starts.length)).toEqual(
        [...host.starts.subarray(1)].map((start) => start + tokens),
      );
      expect(twice.firstTokens.toInt32Array()[3]).toBe(tokens);
      expect(twice.indices.toInt32Array()[tokens]).toBe(240);
    });
  });
});
