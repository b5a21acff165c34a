import { describe, expect, it } from "vitest";
import { listen } from "../../../src/base/events.js";
import { createMethods } from "../../../src/methods/index.js";
import { free } from "../../../src/tensor/index.js";
import { parseSubstitutionTable } from "../../../src/text/substitutions.js";
import { type TrainingJob, train } from "../../../src/train/index.js";
import { texts, tinyDataset, tinyJob, tinyModel } from "../tiny.js";

/** Returns the error of a training. */
async function trainWithError(
  names: readonly string[],
  change: (job: TrainingJob) => Partial<TrainingJob>,
  settings: object = {},
): Promise<unknown> {
  const model = tinyModel();
  const methods = createMethods(names.map((name) => ({ name, options: {} })));
  const job = tinyJob(model, methods, { stopAfter: 1 }, settings);
  try {
    await train({ ...job, ...change(job) });
    return null;
  } catch (error) {
    return error;
  } finally {
    free(model.weights);
  }
}

describe("training reports mistakes before it starts", () => {
  it.each<[string, string[], (job: TrainingJob) => Partial<TrainingJob>, object, string]>([
    [
      "ascc with subword tokenization",
      ["ascc"],
      ({ model }) => ({ model: { ...model, tokenization: "subword" } }),
      {},
      "Set tokenization: word and substitutions: wordnet (--tokenization word --substitutions wordnet).",
    ],
    [
      "a task without modifiable fields",
      ["ascc"],
      ({ task }) => ({ task: { ...task, modifiableFields: [] } }),
      {},
      "tiny has no modifiable field",
    ],
    [
      "substitutions that match no word",
      ["ascc"],
      () => ({ loadSubstitutions: async () => parseSubstitutionTable({ bonjour: ["salut"] }, "french.json") }),
      {},
      "no word of the first 12 examples has a substitute in french.json",
    ],
    [
      "balanced batches with a missing class",
      ["ascc"],
      () => ({ train: tinyDataset(texts.filter(({ label }) => label !== 1)) }),
      { batchSampler: "class-balanced", batchSize: 3 },
      "no example of class 1",
    ],
    [
      "a head that ignores RIFT's features",
      ["rift"],
      ({ model }) => ({ model: { ...model, architecture: { ...model.architecture, pooling: "mean" } } }),
      {},
      "retains the features of pooling: mean, but head: hf classifies without them. Set head: mlp",
    ],
  ])("%s", async (_name, names, change, settings, message) => {
    const error = await trainWithError(names, change, settings);
    expect(error).toMatchObject({ name: "UserError", message: expect.stringContaining(message) });
  });

  it("ascc without substitutions", async () => {
    const error = await trainWithError(["ascc"], () => ({ loadSubstitutions: undefined }) as unknown as TrainingJob);
    expect(error).toMatchObject({ name: "UserError", message: expect.stringContaining("needs word substitutions") });
  });
});

it("rift warns about a teacher with a randomly initialized pooler", async () => {
  const warnings: string[] = [];
  const callbacks = listen({ warning: ({ message }) => warnings.push(message) });
  expect(await trainWithError(["rift"], (job) => ({ ...withoutPooler(job), ...callbacks }))).toBeNull();
  expect(warnings).toEqual([expect.stringMatching(/tiny has no pre-trained pooler.* as in RIFT's released code/)]);
});

function withoutPooler({ model }: TrainingJob): Partial<TrainingJob> {
  return {
    model: {
      ...model,
      architecture: { ...model.architecture, pooling: "pooler" },
      newlyInitialized: ["bert.pooler.dense.weight"],
    },
  };
}

describe("an invalid option is named", () => {
  it.each<[string, string, Record<string, unknown>, string]>([
    ["too many candidates", "ascc", { candidatesPerWord: 11 }, "candidatesPerWord"],
    ["a negative beta", "ascc", { beta: -1 }, "beta"],
    ["mixout with probability 1", "mixout", { p: 1 }, "p"],
    ["a negative lambda", "ptwd", { lambda: -0.1 }, "lambda"],
    ["a temperature of 0", "rift", { tau: 0 }, "tau"],
    [
      "a percentage",
      "rose",
      { updateRatio: 60 },
      "updateRatio: expected a fraction in (0, 1], such as 0.6, received 60",
    ],
    ["a queue with negatives: students", "rift", { queueSize: 8, negatives: "students" }, "queueSize: expected 0"],
    ["an unknown option", "rift", { alhpa: 1 }, 'did you mean "alpha"'],
  ])("%s", (_name, name, options, message) => {
    expect(() => createMethods([{ name, options }])).toThrow(message);
  });
});
