import fc from "fast-check";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { createEagerClassifier } from "../../src/models/classifier.js";
import { createGraphClassifier } from "../../src/models/graph-classifier.js";
import type { Model } from "../../src/models/model.js";
import { free, getMemoryStats, noGrad, type Tensor, zeros } from "../../src/tensor/index.js";
import { padBatch } from "../../src/text/batch.js";
import { tinyModel } from "../methods/tiny.js";

// There is no GPU here: what is recorded is done anew at each replay, and its results come to the same place, as a graph's do.
vi.mock("../../src/tensor/graph.js", async (load) => ({
  ...(await load<typeof import("../../src/tensor/graph.js")>()),
  pinned: (shape: readonly number[], type: "float32") => zeros(shape, { dtype: type }),
  capture: (_states: readonly number[], body: () => Tensor) => {
    const result = body();
    const replay = (): void => {
      const again = body();
      noGrad(() => result.copy_(again));
      free(again);
    };
    return { result, graph: { replay, free() {} } };
  },
}));
vi.mock("../../src/tensor/native.js", async (load) => ({
  ...(await load<typeof import("../../src/tensor/native.js")>()),
  nativeCuda: () => ({ eventRecord() {}, eventWait() {} }),
}));

let model: Model;
let before: number;
beforeAll(() => {
  before = getMemoryStats().tensors;
  model = tinyModel();
});
afterAll(() => {
  free(model.weights);
  expect(getMemoryStats().tensors).toBe(before);
});

test("batches of every size and length have the same probabilities as operator by operator, however many are asked for at once", async () => {
  const longest = model.architecture.config.maxLength;
  const length = fc.oneof(fc.integer({ min: 1, max: longest }), fc.constant(longest));
  const ids = length.chain((size) => fc.array(fc.integer({ min: 4, max: 15 }), { minLength: size, maxLength: size }));
  const text = ids.map((list) => ({
    ids: Int32Array.from(list),
    tokenTypeIds: new Int32Array(list.length),
    truncated: false,
  }));
  const eager = createEagerClassifier(model, model.weights);
  const recorded = createGraphClassifier(model, createEagerClassifier(model, model.weights), "cpu");
  const batches = fc.array(fc.array(text, { minLength: 1, maxLength: 9 }), { minLength: 1, maxLength: 4 });
  await fc.assert(
    fc.asyncProperty(batches, async (list) => {
      const padded = list.map((texts) => padBatch(texts, 0));
      const found = await Promise.all(padded.map((batch) => recorded.probabilities(batch)));
      for (const [i, batch] of padded.entries()) {
        const wanted = await eager.probabilities(batch);
        expect(found[i]!.length).toBe(wanted.length);
        for (const [j, value] of wanted.entries()) expect(Math.abs(found[i]![j]! - value)).toBeLessThan(1e-5);
      }
    }),
    { numRuns: 60 },
  );
  recorded.close();
  eager.close();
});
