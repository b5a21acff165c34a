import fc from "fast-check";
import { expect, test } from "vitest";
import { batchByLength } from "../../src/models/classifier.js";
import type { Encoding } from "../../src/text/encoding.js";

const textsOf = (lengths: readonly number[]): Encoding[] =>
  lengths.map((length) => ({ ids: new Int32Array(length), tokenTypeIds: new Int32Array(length), truncated: false }));

test("batches hold every text once, keep to their tokens, and pad no more than another batch would cost", () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 60 }),
      fc.integer({ min: 1, max: 300 }),
      fc.integer({ min: 0, max: 50 }),
      (lengths, tokens, cost) => {
        const batches = batchByLength(textsOf(lengths), tokens, cost);
        expect(batches.flat().sort((a, b) => a - b)).toEqual(lengths.map((_, i) => i));
        let before = Number.POSITIVE_INFINITY;
        for (const batch of batches) {
          const longest = Math.max(...batch.map((i) => lengths[i]!));
          expect(longest).toBeLessThanOrEqual(before);
          before = longest;
          if (batch.length > 1) expect(batch.length * longest).toBeLessThanOrEqual(tokens);
          expect(batch.reduce((sum, i) => sum + longest - lengths[i]!, 0)).toBeLessThanOrEqual(cost);
        }
      },
    ),
  );
});

test("texts of one length share batches, others do not where padding is worth nothing", () => {
  expect(batchByLength(textsOf([3, 5, 3, 5, 5]), 10, 0)).toEqual([[1, 3], [4], [0, 2]]);
  expect(batchByLength(textsOf([3, 5, 3, 5, 5]), 100, 4)).toEqual([[1, 3, 4, 0, 2]]);
  expect(batchByLength([], 10)).toEqual([]);
});
