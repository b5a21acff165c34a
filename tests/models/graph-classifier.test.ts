import fc from "fast-check";
import { expect, test } from "vitest";
import { type Classifier, classify } from "../../src/models/classifier.js";
import { padToBucket } from "../../src/models/graph-classifier.js";
import { padBatch } from "../../src/text/batch.js";

const text = fc.array(fc.integer({ min: 4, max: 99 }), { minLength: 1, maxLength: 30 }).map((ids) => ({
  ids: Int32Array.from(ids),
  tokenTypeIds: new Int32Array(ids.length),
  truncated: false,
}));

test("a batch is never filled up beyond what the model can read", () => {
  for (const length of [508, 511, 512]) {
    const ids = new Int32Array(length).fill(5);
    expect(
      padToBucket(padBatch([{ ids, tokenTypeIds: new Int32Array(length), truncated: true }], 0), 0, 512),
    ).toMatchObject({ batchSize: 8, sequenceLength: 512 });
  }
});

test("a failure or a stop is the caller's to catch, and comes when nothing is under way any more", async () => {
  const encoded = (length: number) => ({
    ids: new Int32Array(length).fill(5),
    tokenTypeIds: new Int32Array(length),
    truncated: false,
  });
  let underWay = 0;
  const classifier = (failing: number): Classifier => ({
    numLabels: 1,
    padId: 0,
    batchTokens: 1,
    batchCost: 0,
    depth: 2,
    async probabilities(batch) {
      underWay++;
      await new Promise((resolve) => setTimeout(resolve, batch.sequenceLength === failing ? 0 : 20));
      underWay--;
      if (batch.sequenceLength === failing) throw new Error("no memory");
      return new Float32Array(batch.batchSize);
    },
    close() {},
  });
  const texts = [30, 20, 10].map(encoded);
  for (const failing of [30, 20, 10]) {
    await expect(classify(classifier(failing), texts)).rejects.toThrow("no memory");
    expect(underWay).toBe(0);
  }
  const stop = (): void => {
    throw new Error("stopped");
  };
  await expect(classify(classifier(0), texts, stop)).rejects.toThrow("stopped");
  expect(underWay).toBe(0);
});

test("a batch filled up to a recordable shape holds the same texts, and always some padding", () => {
  fc.assert(
    fc.property(fc.array(text, { minLength: 1, maxLength: 40 }), (texts) => {
      const batch = padBatch(texts, 0);
      const filled = padToBucket(batch, 0, 512);
      expect(Math.log2(filled.batchSize) % 1).toBe(0);
      expect(filled.sequenceLength % 8).toBe(0);
      expect(filled.numTokens).toBeLessThan(filled.batchSize * filled.sequenceLength);
      for (const [row, { ids }] of texts.entries()) {
        const start = row * filled.sequenceLength;
        expect(filled.ids.subarray(start, start + ids.length)).toEqual(ids);
        expect(
          filled.attentionMask.subarray(start, start + filled.sequenceLength).reduce((sum, bit) => sum + bit, 0),
        ).toBe(ids.length);
      }
    }),
  );
});
