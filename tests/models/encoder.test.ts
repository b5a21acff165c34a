import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type EncoderInput,
  embedInput,
  embedWords,
  encodeLayers,
  extractFeatures,
  forward,
  loadModel,
  type Model,
  type TokenInput,
  tokenizeFor,
  toModelInput,
} from "../../src/models/index.js";
import { crossEntropy, evalMode, trainMode } from "../../src/nn/index.js";
import {
  free,
  getMemoryStats,
  grad,
  noGrad,
  scope,
  seedGenerator,
  type Tensor,
  tensor,
} from "../../src/tensor/index.js";
import { padBatch } from "../../src/text/batch.js";
import { type Expected, getFixtureFolder, readExpected, readTensors, tinyModels } from "./tiny.js";

function expectClose(actual: ArrayLike<number>, expected: ArrayLike<number>, tolerance: number, label: string): void {
  expect(actual.length, label).toBe(expected.length);
  let worst = 0;
  for (let i = 0; i < expected.length; i++)
    worst = Math.max(worst, Math.abs((actual[i] as number) - (expected[i] as number)));
  expect(worst, label).toBeLessThan(tolerance);
}

describe.each(tinyModels)("%s compared with transformers", (name) => {
  let model: Model;
  let singles: Expected;
  let pairs: Expected;
  beforeAll(async () => {
    model = await loadModel(getFixtureFolder(name));
    ({ singles, pairs } = await readExpected(name));
  });
  afterAll(() => free(model.weights));

  const createInput = (expected: Expected, padding = 0): TokenInput => {
    const encoded = expected.texts.map((texts) => tokenizeFor(model, texts));
    const longest = Math.max(...encoded.map((text) => text.ids.length));
    return toModelInput(
      padBatch(encoded, model.tokenizer.special.padId, { length: longest + padding }),
      model.architecture.config,
      "cpu",
    );
  };

  it("tokenizes texts and pairs into the same tokens and types", () => {
    for (const expected of [singles, pairs]) {
      const encoded = expected.texts.map((texts) => tokenizeFor(model, texts));
      expect(encoded.map((text) => [...text.ids])).toEqual(expected.ids);
      if (expected.types) expect(encoded.map((text) => [...text.tokenTypeIds])).toEqual(expected.types);
    }
  });

  it("has the same hidden states and logits within 1e-5", () => {
    for (const expected of [singles, pairs])
      scope(() =>
        noGrad(() => {
          const input = createInput(expected);
          const { config } = model.architecture;
          const embeddingOutput = embedInput(config, model.weights, input, evalMode);
          const hidden = encodeLayers(config, model.weights, embeddingOutput, input, evalMode, "all");
          for (const [row, values] of expected.hidden.entries()) {
            const text = hidden.select(0, row).narrow(0, 0, values.length / config.hiddenSize);
            expectClose(text.toFloat32Array(), values, 1e-5, `hidden states of text ${row}`);
          }
          const { logits, features } = forward(model.architecture, model.weights, input, evalMode);
          expectClose(logits.toFloat32Array(), expected.logits, 1e-5, "logits");
          expectClose(
            features.toFloat32Array(),
            expected.hidden.flatMap((values) => values.slice(0, config.hiddenSize)),
            1e-5,
            "features",
          );
        }),
      );
  });

  it("has the same loss and the same gradient of every parameter within 1e-5", async () => {
    const expected = await readTensors(join(getFixtureFolder(name), "gradients.safetensors"));
    expect(new Set(expected.keys())).toEqual(new Set(model.weights.keys()));
    scope(() => {
      const { logits } = forward(model.architecture, model.weights, createInput(pairs, 3), evalMode);
      const loss = crossEntropy(logits, tensor(Int32Array.from(pairs.labels)));
      expect(loss.item()).toBeCloseTo(pairs.loss, 5);
      const names = [...model.weights.keys()];
      const gradients = grad(loss, [...model.weights.values()]);
      for (const [i, parameter] of names.entries()) {
        const values = expected.get(parameter) as Float32Array;
        const largest = values.reduce((max, value) => Math.max(max, Math.abs(value)), 0);
        expectClose((gradients[i] as Tensor).toFloat32Array(), values, 1e-5 * Math.max(1, largest), parameter);
      }
      // Comparing only zeros would be meaningless.
      expect(gradients.filter((gradient) => gradient.abs().sum().item() > 1e-3).length).toBeGreaterThan(
        names.length * 0.85,
      );
    });
  });

  it("computes the same from word embeddings and from the embedding output", () =>
    scope(() => {
      const { attentionBias, tokenTypeIds = null, inputIds } = createInput(pairs);
      const { architecture, weights } = model;
      const wordEmbeddings = embedWords(architecture.config, weights, inputIds);
      const embeddingOutput = embedInput(
        architecture.config,
        weights,
        { wordEmbeddings, tokenTypeIds, attentionBias },
        evalMode,
      );
      const run = (input: EncoderInput): Float32Array =>
        forward(architecture, weights, input, evalMode).logits.toFloat32Array();
      const expected = run({ inputIds, tokenTypeIds, attentionBias });
      expect(run({ wordEmbeddings, tokenTypeIds, attentionBias })).toEqual(expected);
      expect(run({ embeddingOutput, attentionBias })).toEqual(expected);
    }));

  it("has gradients for the embeddings, which are 0 at padding", () =>
    scope(() => {
      const input = createInput(pairs);
      const words = embedWords(model.architecture.config, model.weights, input.inputIds).detach().requiresGrad_();
      const { logits } = forward(model.architecture, model.weights, { ...input, wordEmbeddings: words }, evalMode);
      const [gradient] = grad(logits.select(1, 0).sum(), [words]) as [Tensor];
      const norms = gradient.norm([-1]); // [row, position]
      for (const [row, ids] of pairs.ids.entries()) {
        const rowNorms = norms.select(0, row).toFloat32Array();
        expect(rowNorms.slice(0, ids.length).every((norm) => norm > 0)).toBe(true);
        expect(rowNorms.slice(ids.length).every((norm) => norm === 0)).toBe(true);
      }
    }));

  it("computing only the first position gives the same values and gradients", () =>
    scope(() => {
      const input = createInput(pairs);
      const { config } = model.architecture;
      const weights = [...model.weights].filter(([name]) => name.includes(".encoder.")).map(([, tensor]) => tensor);
      const run = (positions: "first" | "all"): number[][] => {
        const embeddingOutput = embedInput(config, model.weights, input, evalMode);
        const hidden = encodeLayers(config, model.weights, embeddingOutput, input, evalMode, positions);
        const first = hidden.select(1, 0);
        return [first, ...grad(first.square().sum(), weights)].map((tensor) => [...tensor.toFloat32Array()]);
      };
      const all = run("all");
      for (const [i, values] of run("first").entries()) {
        const largest = (all[i] as number[]).reduce((max, value) => Math.max(max, Math.abs(value)), 1);
        expectClose(values, all[i] as number[], 1e-5 * largest, `tensor ${i}`);
      }
    }));

  it("does not depend on padding or other texts in the batch", () =>
    scope(() => {
      const alone = { ...singles, texts: singles.texts.slice(0, 1) };
      const input = createInput(alone);
      expect(input.attentionBias).toBeNull();
      const expected = forward(model.architecture, model.weights, input, evalMode).logits.toFloat32Array();
      expectClose(
        forward(model.architecture, model.weights, createInput(alone, 9), evalMode).logits.toFloat32Array(),
        expected,
        1e-5,
        "padded",
      );
      const inBatch = forward(
        model.architecture,
        model.weights,
        createInput(singles),
        evalMode,
      ).logits.toFloat32Array();
      expectClose(inBatch.slice(0, expected.length), expected, 1e-5, "in a batch");
    }));

  it("the seed determines dropout in training mode", () =>
    scope(() => {
      const run = (seed: number): Float32Array => {
        seedGenerator("cpu", seed);
        return forward(model.architecture, model.weights, createInput(singles), trainMode).logits.toFloat32Array();
      };
      expect(run(1)).toEqual(run(1));
      expect(run(1)).not.toEqual(run(2));
    }));

  it("leaks no tensors", () => {
    const before = getMemoryStats().tensors;
    scope(() => {
      const { logits } = forward(model.architecture, model.weights, createInput(pairs), trainMode);
      grad(logits.sum(), [...model.weights.values()]);
    });
    expect(getMemoryStats().tensors).toBe(before);
  });

  it("mean pooling averages over the tokens without padding", () =>
    scope(() => {
      const mean = extractFeatures(
        { ...model.architecture, pooling: "mean" },
        model.weights,
        createInput(pairs),
        evalMode,
      ).toFloat32Array();
      const width = model.architecture.config.hiddenSize;
      const expected = pairs.hidden.flatMap((values) =>
        Array.from({ length: width }, (_, k) => {
          const column = values.filter((_, i) => i % width === k);
          return column.reduce((sum, value) => sum + value, 0) / column.length;
        }),
      );
      expectClose(mean, expected, 1e-5, "mean");
    }));
});
