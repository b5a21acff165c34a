import fc from "fast-check";
import { expect, test } from "vitest";
import { batchByLength, batchByTokens, fillBatch } from "../../src/models/inference-batches.js";
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

test("batches without padding are filled to few sizes", () => {
  const sizes = { tokens: new Set<number>(), texts: new Set<number>() };
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 60 }), (lengths) => {
      const texts = createTexts(lengths);
      const filled = fillBatch(texts, 7);
      expect(filled.slice(0, texts.length)).toEqual(texts);
      const padding = filled.slice(texts.length);
      for (const { ids } of padding) {
        expect(ids.length).toBeGreaterThan(0);
        expect(ids.length).toBeLessThanOrEqual(Math.max(...lengths));
        expect(ids.every((id) => id === 7)).toBe(true);
      }
      const count = (encodings: typeof filled) => encodings.reduce((sum, { ids }) => sum + ids.length, 0);
      expect(count(filled)).toBeLessThanOrEqual(Math.max(192, 1.7 * count(texts)));
      sizes.tokens.add(count(filled));
      sizes.texts.add(filled.length);
    }),
    { numRuns: 300 },
  );
  expect(sizes.tokens.size).toBeLessThanOrEqual(20);
  expect(sizes.texts.size).toBeLessThanOrEqual(8);
});
