import fc from "fast-check";
import { expect, test } from "vitest";
import { batchByLength, batchByTokens } from "../../src/models/inference/inference-batches.js";
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
