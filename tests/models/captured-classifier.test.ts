import fc from "fast-check";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { createEagerClassifier } from "../../src/models/inference/classifier.js";
import { createGraphClassifier } from "../../src/models/inference/graph-classifier.js";
import type { Model } from "../../src/models/model.js";
import { free, getMemoryStats, noGrad, type Tensor, zeros } from "../../src/tensor/index.js";
import { padBatch } from "../../src/text/batch.js";
import { tinyModel } from "../methods/tiny.js";
import { expectClose, measureAsyncSpread } from "../rounding.js";

// The mock needs no GPU. Each replay runs the captured work again and writes its results to the
// same tensors, like a CUDA graph.
vi.mock("../../src/tensor/graph.js", async (load) => ({
  ...(await load<typeof import("../../src/tensor/graph.js")>()),
  allocatePinned: (shape: readonly number[], dtype: "float32") => zeros(shape, { dtype }),
  captureGraph: (_states: readonly number[], body: () => Tensor) => {
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
  nativeCuda: () => ({ eventRecord() {}, eventWait() {}, eventQuery: () => true }),
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

test.each([
  ["captured graphs give", 8192],
  ["large batches give", 0],
])("%s the same probabilities as eager execution for concurrent batches of any size", async (_, maxGraphTokens) => {
  const maxLength = model.architecture.config.maxLength;
  const length = fc.oneof(fc.integer({ min: 1, max: maxLength }), fc.constant(maxLength));
  const ids = length.chain((size) => fc.array(fc.integer({ min: 4, max: 15 }), { minLength: size, maxLength: size }));
  const text = ids.map((list) => ({
    ids: Int32Array.from(list),
    tokenTypeIds: new Int32Array(list.length),
    truncated: false,
  }));
  const eager = createEagerClassifier(model, model.weights);
  const captured = createGraphClassifier(model, createEagerClassifier(model, model.weights), "cpu", maxGraphTokens);
  const batches = fc.array(fc.array(text, { minLength: 1, maxLength: 9 }), { minLength: 1, maxLength: 4 });
  await fc.assert(
    fc.asyncProperty(batches, async (list) => {
      const padded = list.map((texts) => padBatch(texts, 0));
      const actual = await Promise.all(padded.map((batch) => captured.computeLogits(batch)));
      for (const [i, batch] of padded.entries()) {
        const expected = await eager.computeLogits(batch);
        expectClose(actual[i]!, expected, { spread: await measureAsyncSpread(() => eager.computeLogits(batch)) });
      }
    }),
    { numRuns: 60 },
  );
  captured.close();
  eager.close();
});
