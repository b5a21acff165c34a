import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { evaluate } from "../../src/actions/evaluate.js";
import { merge } from "../../src/actions/merge.js";
import { train } from "../../src/actions/train/train.js";
import { loadModel, saveModel } from "../../src/models/index.js";
import { mapWeights } from "../../src/nn/index.js";
import { free, keep, scope } from "../../src/tensor/index.js";
import { invoke } from "../cli/invoke.js";
import { readValues } from "../methods/tiny.js";
import { expectClose, getLargest } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { tinyRun } from "../tiny-run.js";

const folder = temporaryFolder();
const at = (name: string): string => join(folder, name);
const runs = [0, 1].map((seed) => at(`seed${seed}`));
const runtime = { device: "cpu", threads: 1 } as const;
let data: string;
let pretrained: string;

async function readModel(reference: string): Promise<Record<string, number[]>> {
  const { weights } = await loadModel(reference, { labels: ["negative", "positive"] });
  const values = readValues(weights);
  free(weights);
  return values;
}

beforeAll(async () => {
  for (const [seed, out] of runs.entries()) {
    const config = await tinyRun(folder, { seed, train: { epochs: 6 } });
    await train({ ...config, out });
    data = config.data!;
    pretrained = config.model;
  }
});

describe("wise-ft", () => {
  test("is a point on the line to the pre-trained weights, with the head of the run", async () => {
    const [before, after] = [await readModel(pretrained), await readModel(runs[0]!)];
    const report = await merge({ models: [runs[0]!], mode: "wise-ft", alpha: 0.25, out: at("quarter"), ...runtime });
    expect(report.models).toEqual([
      { model: pretrained, weight: 0.75, accuracy: null, degeneracy: null },
      { model: runs[0], weight: 0.25, accuracy: null, degeneracy: null },
    ]);
    const merged = await readModel(at("quarter"));
    expect(Object.keys(merged)).toEqual(Object.keys(after));
    const name = "bert.encoder.layer.0.attention.self.query.weight";
    const expected = before[name]!.map((value, i) => 0.75 * value + 0.25 * after[name]![i]!);
    expectClose(merged[name]!, expected, { terms: 3, scale: getLargest([...before[name]!, ...after[name]!]) });
    expect(merged["classifier.weight"]).toEqual(after["classifier.weight"]);
  });

  test("at 1 is the run and at 0 has the pre-trained encoder, bitwise", async () => {
    const [before, after] = [await readModel(pretrained), await readModel(runs[0]!)];
    await merge({ models: [runs[0]!], mode: "wise-ft", alpha: 1, out: at("one"), ...runtime });
    expect(await readModel(at("one"))).toEqual(after);
    await merge({ models: [runs[0]!], mode: "wise-ft", alpha: 0, out: at("zero"), ...runtime });
    const { "classifier.weight": head, "classifier.bias": bias, ...encoder } = await readModel(at("zero"));
    expect([head, bias]).toEqual([after["classifier.weight"], after["classifier.bias"]]);
    expect(before).toMatchObject(
      Object.fromEntries(Object.entries(encoder).filter(([name]) => !name.includes("pooler"))),
    );
    const { accuracy } = await evaluate({ model: at("one"), data, ...runtime });
    expect(accuracy).toBe((await evaluate({ model: runs[0]!, data, ...runtime })).accuracy);
  });
});

describe("soups", () => {
  test("uniform is the mean of the runs, and equal runs give the run itself", async () => {
    const [first, second] = [await readModel(runs[0]!), await readModel(runs[1]!)];
    await merge({ models: runs, mode: "uniform", out: at("uniform"), ...runtime });
    const merged = await readModel(at("uniform"));
    for (const [name, values] of Object.entries(merged)) {
      const expected = first[name]!.map((value, i) => (value + second[name]![i]!) / 2);
      expectClose(values, expected, { terms: 3, scale: getLargest([...first[name]!, ...second[name]!]) }, name);
    }
    await merge({ models: [runs[0]!, runs[0]!, runs[0]!], mode: "uniform", out: at("same"), ...runtime });
    expect(await readModel(at("same"))).toEqual(first);
  });

  /** Writes the first run with some tensors multiplied. */
  const writeScaled = async (name: string, factors: Readonly<Record<string, number>>): Promise<string> => {
    const model = await loadModel(runs[0]!);
    const weights = scope(() =>
      keep(mapWeights(model.weights, (tensor, each) => tensor.detach().mul(factors[each] ?? 1))),
    );
    await saveModel(at(name), model, weights);
    free(weights);
    free(model.weights);
    return at(name);
  };
  const measureAccuracy = async (model: string): Promise<number> =>
    (await evaluate({ model, data, ...runtime })).accuracy;

  test("greedy adds a model if the accuracy of the mean does not fall", async () => {
    // The larger logits of the copy have the same signs.
    const scaled = await writeScaled("scaled", { "classifier.weight": 3, "classifier.bias": 3 });
    const models = [runs[0]!, scaled];
    const report = await merge({ models, mode: "greedy", out: at("added"), data, split: "test", ...runtime });
    const accuracy = await measureAccuracy(runs[0]!);
    expect(accuracy).toBeGreaterThan(0.8);
    expect(report).toMatchObject({ accuracy, models: models.map((model) => ({ model, weight: 0.5, accuracy })) });
    await merge({ models, mode: "uniform", out: at("added-uniform"), ...runtime });
    expect(await readModel(at("added"))).toEqual(await readModel(at("added-uniform")));
    // By default, it is the validation split of the first run.
    expect(await merge({ models: runs, mode: "greedy", out: at("greedy"), ...runtime })).toMatchObject({
      split: "validation",
    });
  });

  test("greedy leaves out a model that is as good, but lowers the accuracy of the mean", async () => {
    // tanh(-3 x) (-0.5 W) has the signs of tanh(x) W, but the mean is tanh(-x) 0.25 W.
    const negated = await writeScaled("negated", {
      ...{ "bert.pooler.dense.weight": -3, "bert.pooler.dense.bias": -3 },
      ...{ "classifier.weight": -0.5, "classifier.bias": 0.5 },
    });
    const models = [runs[0]!, negated];
    const report = await merge({ models, mode: "greedy", out: at("left-out"), data, split: "test", ...runtime });
    const accuracies = await Promise.all(models.map(measureAccuracy));
    expect(report.models.map(({ accuracy }) => accuracy)).toEqual(accuracies);
    expect(accuracies[1]).toBeGreaterThan(0.8);
    const best = accuracies[1]! > accuracies[0]! ? 1 : 0;
    expect(report.models.map(({ weight }) => weight)).toEqual([1 - best, best]);
    expect(report.accuracy).toBe(accuracies[best]);
    expect(await readModel(at("left-out"))).toEqual(await readModel(models[best]!));
    await merge({ models, mode: "uniform", out: at("flipped"), ...runtime });
    expect(await measureAccuracy(at("flipped"))).toBeLessThan(accuracies[best]!);
  });

  test("the command prints the weights and accepts no folder with content", async () => {
    const args = ["merge", ...runs, "--mode", "uniform", "--out", at("command"), "--device", "cpu", "--quiet"];
    const { code, stdout } = await invoke(args);
    expect(code).toBe(0);
    expect(stdout).toContain(`The merged model is in ${at("command")}.`);
    expect(readdirSync(at("command"))).toContain("merge.json");
    const again = await invoke(args);
    expect(again.code).toBe(2);
    expect(again.stderr).toContain("expected a new or empty folder");
  });
});

test.each<[string, object, string]>([
  ["one model for a soup", { models: ["seed0"], mode: "uniform" }, "uniform expected at least two models, received 1"],
  ["two models for wise-ft", { models: ["seed0", "seed1"], mode: "wise-ft" }, "wise-ft expected one model, received 2"],
  ["a model without a run", { models: ["one"], mode: "wise-ft" }, "Name it with --pretrained"],
  ["other labels", { models: ["seed0", "other"], mode: "uniform" }, "differ in labels (negative, positive and x, y)"],
])("%s is rejected", async (_name, { models, ...request }: { models?: string[] }, message) => {
  if (models!.includes("other")) {
    const model = await loadModel(runs[0]!);
    await saveModel(at("other"), { ...model, labels: ["x", "y"] });
    free(model.weights);
  }
  const out = at("rejected");
  const asked = { ...request, models: models!.map(at), out, ...runtime } as Parameters<typeof merge>[0];
  await expect(merge(asked)).rejects.toThrow(message);
  expect(existsSync(out)).toBe(false);
});
