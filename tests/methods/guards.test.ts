import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { train as trainRun } from "../../src/actions/train/train.js";
import { listen } from "../../src/base/events.js";
import { computeEnergyPenalty, energy } from "../../src/methods/energy.js";
import { createMethods } from "../../src/methods/index.js";
import { type Model, predictProbabilities, tokenizeAll } from "../../src/models/index.js";
import { free, scope, tensor } from "../../src/tensor/index.js";
import { type TrainingMethod, train } from "../../src/train/index.js";
import { computeLogits } from "../models/tiny.js";
import { checkGradients } from "../nn/finite-difference.js";
import { expectClose } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { tinyRun } from "../tiny-run.js";
import { texts, tinyJob, tinyModel } from "./tiny.js";
import { expectResumed, trainTiny } from "./train-tiny.js";

const folder = temporaryFolder();
const create = (name: string, options: Record<string, unknown> = {}) => createMethods([{ name, options }]);
const settings = { dropout: false, batchSize: 12, epochs: 4 };

/** The losses of each step. All texts are one batch. */
async function trainOnAll(
  name: string,
  options: Record<string, unknown>,
  beforeStep: (model: Model, step: number) => void = () => undefined,
  changes: object = {},
): Promise<Record<string, unknown>[]> {
  const observer: TrainingMethod = {
    name: "observer",
    beforeStep: async ({ job }, step) => beforeStep(job.model, step),
  };
  return (await trainTiny([[name, options], observer], { ...settings, ...changes })).events;
}

describe("energy", () => {
  const labels = tensor(Int32Array.from([0, 1, 0, 2]));

  test("the gradient of the penalty is that of finite differences, above and below the margin", () => {
    for (const margin of [-100, -1.5, 100])
      checkGradients([[4, 3]], (logits) => computeEnergyPenalty(logits, labels, 0, margin));
  });

  test("only confident texts of the benign label have a penalty", () =>
    scope(() => {
      const logits = tensor([5, 0, 0, 5, 0, 0, 0, 0, 0, 9, 0, 0], [4, 3]);
      // Row 1 and row 3 are not benign, and the energy of row 2 is above the margin.
      const excess = Math.log(Math.exp(5) + 2) - 2;
      expectClose(computeEnergyPenalty(logits, labels, 0, -2).item(), excess ** 2 / 4);
      expect(computeEnergyPenalty(logits, labels, 0, -9).item()).toBe(0);
    }));

  test("by default, two labels have a penalty from a benign probability of 0.84 on", () =>
    scope(() => {
      const { margin } = energy.options.parse({});
      const benign = tensor(Int32Array.from([0]));
      const compute = (p: number): number => {
        const logit = Math.log(p / (1 - p)) / 2;
        return computeEnergyPenalty(tensor([logit, -logit], [1, 2]), benign, 0, margin).item();
      };
      expect(compute(0.83)).toBe(0);
      expect(compute(0.85)).toBeGreaterThan(0);
    }));

  test("a training step has the penalty of its logits, times lambda, for the label by name", async () => {
    const expected: number[] = [];
    const losses = await trainOnAll("energy", { benignLabel: "b", lambda: 0.5, margin: -0.5 }, (model, step) => {
      if (step !== 1) return;
      const rows = computeLogits(
        model,
        texts.map(({ ids }) => [toText(ids)]),
      );
      const sum = texts.reduce((total, { label }, i) => {
        const free = Math.log([0, 1, 2].reduce((all, k) => all + Math.exp(rows[3 * i + k]!), 0));
        return total + (label === 1 ? Math.max(0, free - 0.5) ** 2 : 0);
      }, 0);
      expected.push((0.5 * sum) / texts.length);
    });
    expect(expected[0]).toBeGreaterThan(0);
    expectClose(losses[1]!["loss.energy"] as number, expected[0]!, { terms: 400 }); // a pass through the model
  });

  test("an unknown label is rejected before training", async () => {
    await expect(trainOnAll("energy", { benignLabel: "d" })).rejects.toThrow(
      'method energy: benignLabel: unknown label "d" (did you mean "a"?). The labels are a, b, c.',
    );
  });
});

const toText = (ids: readonly number[]): string =>
  ids
    .slice(1, -1)
    .map((id) => `w${id}`)
    .join(" ");

describe("mof", () => {
  const vocabulary = [...new Set(texts.flatMap(({ ids }) => ids.slice(1, -1)))].map((id) => `w${id}`);

  test("benign texts with words that alone look like attacks have a loss, from the second round on", async () => {
    let triggers: string[] = [];
    const rows: { readonly text: string; readonly original: string }[] = [];
    const model = tinyModel();
    const job = tinyJob(model, [], {}, { ...settings, epochs: 10 });
    const [method] = create("mof", { benignLabel: "b", interval: 8, fraction: 1, alpha: 0.5, insertedWords: 2 });
    const observer = {
      ...method!,
      async beforeStep(...[training, step]: Parameters<NonNullable<NonNullable<typeof method>["beforeStep"]>>) {
        if (step === 8) {
          const encodings = tokenizeAll(
            model,
            vocabulary.map((word) => [word]),
          );
          const found = await predictProbabilities(model, model.weights, encodings, job.deviceConfig);
          triggers = vocabulary.filter((_, i) => found[i]!.some((p) => p > found[i]![1]!));
        }
        await method!.beforeStep!(training, step);
      },
      collate(batch: Parameters<NonNullable<NonNullable<typeof method>["collate"]>>[0]) {
        const extra = method!.collate!(batch);
        const mask = extra["mof.changed"]?.values;
        const ids = extra["mof.text.ids"];
        const width = ids?.shape[1] ?? 0;
        for (const [row, item] of batch.items.entries())
          if (mask?.[row])
            rows.push({
              text: Array.from(ids!.values.subarray(row * width, (row + 1) * width))
                .filter((id) => id > 3)
                .map((id) => `w${id}`)
                .join(" "),
              original: item.example.texts[0]!,
            });
        return extra;
      },
    };
    const events: Record<string, unknown>[] = [];
    await train({ ...job, methods: [observer], ...listen({ log: ({ entry }) => events.push(entry) }) });
    free(model.weights);
    expect(events.map((event) => "loss.triggers" in event)).toEqual([...Array(8).fill(false), true, true]);
    expect(triggers.length).toBeGreaterThan(0);
    expect(triggers.length).toBeLessThan(vocabulary.length);
    const benign = texts.filter(({ label }) => label === 1).length;
    expect(rows).toHaveLength(2 * benign);
    expectClose(events[8]!["mof.fraction"] as number, benign / texts.length);
    for (const { text, original } of rows) {
      const added = text.split(" ");
      for (const word of original.split(" ")) added.splice(added.indexOf(word), 1);
      expect(added).toHaveLength(2);
      expect(added.filter((word) => !triggers.includes(word))).toEqual([]);
    }
  });

  test("by default, the training of one epoch has a round in its middle", async () => {
    const losses = await trainOnAll("mof", { benignLabel: "b", fraction: 1 }, undefined, { batchSize: 2, epochs: 1 });
    expect(losses.map((event) => "loss.triggers" in event)).toEqual([false, false, false, true, true, true]);
  });

  test("without such words, training is that of the examples", async () => {
    // Every word alone is benign, because the bias of the label decides.
    const losses = await trainOnAll("mof", { interval: 1, fraction: 1 }, (model, step) => {
      if (step === 0)
        scope(() =>
          model.weights
            .get("classifier.bias")!
            .detach()
            .copy_(tensor([99, 0, 0])),
        );
    });
    expect(losses.map((event) => event["loss.triggers"])).toEqual([undefined, 0, 0, 0]);
  });

  test.each([1, 2, 3])("a run that stops after step %i continues bitwise", async (stop) => {
    await expectResumed(folder, [["mof", { interval: 2, benignLabel: "c" }]], stop);
  });

  test("trains a run, and refuses pairs of texts", async () => {
    const methods = [{ name: "mof", options: { interval: 80, benignLabel: "negative" } }];
    const config = await tinyRun(folder, { methods, train: { epochs: 10 } });
    const run = await trainRun({ ...config, out: join(folder, "run") });
    expect((await run.events()).some((event) => (event["mof.fraction"] as number) > 0)).toBe(true);
    const job = tinyJob(tinyModel(), create("mof"));
    const pairs = { ...job, task: { ...job.task, fields: ["first", "second"] } };
    await expect(train(pairs)).rejects.toThrow("it changes single texts, but task tiny has pairs.");
  });
});
