import { expect, test } from "vitest";
import { classify } from "../../src/models/inference/classifier.js";
import type { Classifier } from "../../src/models/inference/classifier-interface.js";
import { padToBucket } from "../../src/models/inference/graph-classifier.js";
import { padBatch } from "../../src/text/batch.js";

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
