import fc from "fast-check";
import { expect, test } from "vitest";
import { fillUp } from "../../src/models/graph-classifier.js";
import { padBatch } from "../../src/text/batch.js";

const text = fc.array(fc.integer({ min: 4, max: 99 }), { minLength: 1, maxLength: 30 }).map((ids) => ({
  ids: Int32Array.from(ids),
  types: new Int32Array(ids.length),
  truncated: false,
}));

test("a batch filled up to a recordable shape holds the same texts, and always some padding", () => {
  fc.assert(
    fc.property(fc.array(text, { minLength: 1, maxLength: 40 }), (texts) => {
      const batch = padBatch(texts, 0);
      const filled = fillUp(batch, 0);
      expect(Math.log2(filled.rows) % 1).toBe(0);
      expect(filled.length % 8).toBe(0);
      expect(filled.tokens).toBeLessThan(filled.rows * filled.length);
      for (const [row, { ids }] of texts.entries()) {
        const start = row * filled.length;
        expect(filled.ids.subarray(start, start + ids.length)).toEqual(ids);
        expect(filled.mask.subarray(start, start + filled.length).reduce((sum, bit) => sum + bit, 0)).toBe(ids.length);
      }
    }),
  );
});
