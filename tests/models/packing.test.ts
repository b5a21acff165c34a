import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { duplicatePacking, packOnHost, packTokens, roundTokens, unpackTokens } from "../../src/models/packing.js";
import { scope, tensor } from "../../src/tensor/index.js";
import { padBatch } from "../../src/text/batch.js";

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
