import { afterAll, test } from "vitest";
import { createMethods } from "../../src/methods/index.js";
import { free, scope } from "../../src/tensor/index.js";
import { toBatch, toHostBatch } from "../../src/train/batch-transfer.js";
import { StepBatch } from "../../src/train/step-batch.js";
import { createTrainingContext } from "../../src/train/training-context.js";
import { expectClose } from "../rounding.js";
import { tinyJob, tinyModel } from "./tiny.js";

const model = tinyModel();
afterAll(() => free(model.weights));

test.each([
  { name: "r-drop", options: { reduction: "sum" } },
  { name: "hash-vote", options: { groups: 2, margin: 1 } },
])("$name, which has its own task loss, uses class weights", async (spec) => {
  const compute = async (settings: object): Promise<number> => {
    const job = tinyJob(model, createMethods([spec]), {}, { dropout: false, ...settings });
    const training = await createTrainingContext(job);
    try {
      const batch = toBatch(training.job, toHostBatch(training.job, Int32Array.from([0, 1, 2, 3])));
      return scope(() =>
        training.stack
          .losses(new StepBatch(training, batch, 0))
          .get("task")!
          .item(),
      );
    } finally {
      training.close();
    }
  };
  const plain = await compute({});
  // A forward pass through the tiny model rounds so many times one after the other.
  expectClose(await compute({ classWeights: { a: 3, b: 3, c: 3 } }), 3 * plain, { terms: 400 });
});
