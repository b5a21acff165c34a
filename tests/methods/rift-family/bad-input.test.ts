import { describe, expect, it } from "vitest";
import { createMethods } from "../../../src/methods/index.js";
import { free } from "../../../src/tensor/index.js";
import { parseSubstitutionTable } from "../../../src/text/substitutions.js";
import { type TrainingJob, train } from "../../../src/train/index.js";
import { texts, tinyDataset, tinyJob, tinyModel } from "../tiny.js";

const choose = (name: string, options: Record<string, unknown> = {}) => createMethods([{ name, options }]);

/** What training says before its first update. */
async function refused(
  names: readonly string[],
  change: (job: TrainingJob) => Partial<TrainingJob>,
  settings: object = {},
): Promise<unknown> {
  const model = tinyModel();
  const layers = createMethods(names.map((name) => ({ name, options: {} })));
  const job = tinyJob(model, layers, { maxSteps: 1 }, settings);
  try {
    await train({ ...job, ...change(job) });
    return null;
  } catch (error) {
    return error;
  } finally {
    free(model.weights);
  }
}

describe("training says what is wrong before it starts", () => {
  it.each<[string, string[], (job: TrainingJob) => Partial<TrainingJob>, object, string]>([
    [
      "ascc on subwords",
      ["ascc"],
      ({ model }) => ({ model: { ...model, tokenization: "subword" } }),
      {},
      "set encoding: word",
    ],
    [
      "a task without open fields",
      ["ascc"],
      ({ task }) => ({ task: { ...task, modifiableFields: [] } }),
      {},
      "tiny has no open field",
    ],
    [
      "a table that fits no word",
      ["ascc"],
      () => ({ loadSubstitutions: async () => parseSubstitutionTable({ bonjour: ["salut"] }, "french.json") }),
      {},
      "none of the words of 12 examples has a substitute in french.json",
    ],
    [
      "balanced batches without a class",
      ["ascc"],
      () => ({ train: tinyDataset(texts.filter(({ label }) => label !== 1)) }),
      { batchSampler: "class-balanced", batchSize: 3 },
      "no example of class 1",
    ],
    ["two adversaries", ["ascc", "freelb"], () => ({}), {}, "leave one of them out"],
    ["a method twice", ["ptwd", "ptwd"], () => ({}), {}, "ptwd is named twice"],
    ["a teacher's pooler that was drawn", ["rift"], withoutPooler, {}, "tiny has no pooler"],
  ])("%s", async (_name, names, change, settings, message) => {
    const error = await refused(names, change, settings);
    expect(error).toMatchObject({ name: "UserError", message: expect.stringContaining(message) });
  });

  it("ascc without a substitution set", async () => {
    const error = await refused(
      ["ascc"],
      ({ loadSubstitutions: _, ...job }) => ({ ...job, substitutions: undefined }) as unknown as TrainingJob,
    );
    expect(error).toMatchObject({ name: "UserError", message: expect.stringContaining("needs a substitution set") });
  });
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

describe("options are checked with their place", () => {
  it.each<[string, string, Record<string, unknown>, string]>([
    ["more slots than there are", "ascc", { slots: 11 }, "slots"],
    ["a negative beta", "ascc", { beta: -1 }, "beta"],
    ["mixout of everything", "mixout", { p: 1 }, "p"],
    ["a negative lambda", "ptwd", { lambda: -0.1 }, "lambda"],
    ["a temperature of nothing", "rift", { tau: 0 }, "tau"],
    ["a queue of teachers beside students", "rift", { queue: 8, normalize: "students" }, "queue"],
    ["an option that is not there", "rift", { alhpa: 1 }, 'did you mean "alpha"'],
  ])("%s", (_name, method, options, place) => {
    expect(() => choose(method, options)).toThrow(place);
  });
});
