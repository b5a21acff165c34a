import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { softmax } from "../../src/base/softmax.js";
import { classify, type DeviceConfig, loadModel, type Model } from "../../src/models/index.js";
import { createEagerClassifier } from "../../src/models/inference/classifier.js";
import { canPrepare } from "../../src/nn/index.js";
import { getMaxInputLevel } from "../../src/nn/prepared-dense.js";
import { free, getMemoryStats } from "../../src/tensor/index.js";
import { expectComputedAsync, unitRoundoff } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { familyNames, writeFamilyClassifier } from "./family-models.js";

const folder = temporaryFolder();
const models = new Map<string, Model>();
afterAll(() => {
  for (const { weights } of models.values()) free(weights);
});

async function load(name: string): Promise<Model> {
  const model = models.get(name) ?? (await loadModel(writeFamilyClassifier(join(folder, name), name)));
  models.set(name, model);
  return model;
}

/** The largest difference between the probabilities of two configs. */
async function compare(model: Model, texts: readonly string[], changed: Partial<DeviceConfig>): Promise<number> {
  const encodings = texts.map((text) => model.tokenizer.encode([text], 12));
  const run = async (config: DeviceConfig): Promise<Float32Array[]> => {
    const classifier = createEagerClassifier(model, model.weights, config);
    const rows = await classify(classifier, encodings);
    classifier.close();
    return rows.map(softmax);
  };
  const exact: DeviceConfig = { device: "cpu", computeDtype: "float32" };
  const [wanted, found] = [await run(exact), await run({ ...exact, ...changed })];
  return Math.max(...wanted.flatMap((row, i) => [...row].map((value, k) => Math.abs(value - found[i]![k]!))));
}

const texts = ["good", "the plot was very good", "a cold and dull scene of the film"];

describe.each(familyNames)("%s", (name) => {
  // bfloat16 has 8 significant bits, and errors of a few layers add up.
  test("in bfloat16 gives nearly the probabilities of float32", async () => {
    const difference = await compare(await load(name), texts, { computeDtype: "bfloat16" });
    expect(difference).toBeGreaterThan(0);
    expect(difference).toBeLessThan(8 * unitRoundoff.bfloat16);
  });

  // An input is rounded to 127 or 255 levels, depending on the CPU. The error is a fraction of a level.
  test.runIf(canPrepare("int8"))("in int8 gives nearly the probabilities of float32", async () => {
    const model = await load(name);
    const before = getMemoryStats().tensors;
    const difference = await compare(model, texts, { isQuantized: true });
    expect(difference).toBeGreaterThan(0);
    expect(difference).toBeLessThan(12 / getMaxInputLevel());
    expect(getMemoryStats().tensors).toBe(before);
  });
});

describe.runIf(canPrepare("int8"))("products in 8 bits", () => {
  test.each(["bert", "albert", "electra"])("of %s score a text alone as in a batch of other lengths", async (name) => {
    const model = await load(name);
    const encodings = texts.map((text) => model.tokenizer.encode([text], 12));
    const config = { device: "cpu", computeDtype: "float32", isQuantized: true } as const;
    const classifier = createEagerClassifier(model, model.weights, config);
    const together = await classify(classifier, encodings);
    // The head and a projection of embeddings multiply in float32, whose last bits depend on the number of rows.
    for (const [i, encoding] of encodings.entries()) {
      const classifyAlone = async (): Promise<Float32Array> => (await classify(classifier, [encoding]))[0]!;
      await expectComputedAsync(classifyAlone, together[i]!);
    }
    classifier.close();
  });
});
