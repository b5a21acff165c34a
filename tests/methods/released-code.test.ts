import { describe, expect, test, vi } from "vitest";
import { toPredictions } from "../../src/evaluation/metrics.js";
import type { ModifiableWords } from "../../src/hull/convex-hull.js";
import { ascc } from "../../src/methods/ascc/ascc.js";
import { computeRobustAccuracy } from "../../src/methods/ascc/robust-accuracy.js";
import { predictProbabilities } from "../../src/models/index.js";
import { free } from "../../src/tensor/index.js";
import { train } from "../../src/train/index.js";
import { createTrainingContext } from "../../src/train/training-context.js";
import { temporaryFolder } from "../temporary.js";
import { texts, tinyDataset, tinyJob, tinyModel } from "./tiny.js";

// Options that follow the authors' released code where it differs from the papers.
vi.stubEnv("TEMPER_CACHE", temporaryFolder());

describe("ASCC with robustAccuracy: attacked", () => {
  test("counts texts that are correct after the attack, whatever they were before", async () => {
    const model = tinyModel();
    await train(tinyJob(model, [], {}, { epochs: 15, dropout: false }));
    const training = await createTrainingContext(tinyJob(model, []));
    const predict = async (inputs: typeof texts): Promise<Int32Array> => {
      const encodings = tinyDataset(inputs).items.map(({ encoding }) => encoding);
      return toPredictions(await predictProbabilities(model, model.weights, encodings, training.job.deviceConfig));
    };
    // Every choice of the first word is the token 4, and the labels are the predictions after that.
    const getModifiableWords = (): ModifiableWords => ({
      tokenPositions: Int32Array.of(1),
      wordIndices: Int32Array.of(0),
      candidateIds: [Int32Array.of(4, 4)],
    });
    const after = await predict(texts.map(({ ids, label }) => ({ ids: [ids[0]!, 4, ...ids.slice(2)], label })));
    const { items } = tinyDataset(texts.map(({ ids }, i) => ({ ids, label: after[i]! })));
    const numUnchanged = (await predict(texts)).filter((label, i) => label === after[i]).length;
    expect(numUnchanged).toBeLessThan(texts.length);
    const measure = (robustAccuracy: "attacked" | "clean-and-attacked"): Promise<number> =>
      computeRobustAccuracy(training, items, getModifiableWords, {
        ...ascc.options.parse({ innerSteps: 2 }),
        robustAccuracy,
      });
    expect(await measure("attacked")).toBe(1);
    expect(await measure("clean-and-attacked")).toBe(numUnchanged / texts.length);
    training.close();
    free(model.weights);
  });
});
