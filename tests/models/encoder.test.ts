import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  applyEmbeddingLayer,
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
import { type Expected, expectedOf, folderOf, readTensors, tinyModels } from "./tiny.js";

function expectClose(seen: ArrayLike<number>, expected: ArrayLike<number>, tolerance: number, where: string): void {
  expect(seen.length, where).toBe(expected.length);
  let worst = 0;
  for (let i = 0; i < expected.length; i++)
    worst = Math.max(worst, Math.abs((seen[i] as number) - (expected[i] as number)));
  expect(worst, where).toBeLessThan(tolerance);
}

describe.each(tinyModels)("%s beside transformers", (name) => {
  let model: Model;
  let singles: Expected;
  let pairs: Expected;
  beforeAll(async () => {
    model = await loadModel(folderOf(name));
    ({ singles, pairs } = await expectedOf(name));
  });
  afterAll(() => free(model.weights));

  const inputOf = (expected: Expected, padding = 0): TokenInput => {
    const encoded = expected.texts.map((texts) => tokenizeFor(model, texts));
    const longest = Math.max(...encoded.map((text) => text.ids.length));
    return toModelInput(padBatch(encoded, model.tokenizer.special.padId, { length: longest + padding }), "cpu");
  };

  it("reads texts and pairs as the same tokens and types", () => {
    for (const expected of [singles, pairs]) {
      const encoded = expected.texts.map((texts) => tokenizeFor(model, texts));
      expect(encoded.map((text) => [...text.ids])).toEqual(expected.ids);
      if (expected.types) expect(encoded.map((text) => [...text.tokenTypeIds])).toEqual(expected.types);
    }
  });

  it("gives the same hidden states and logits to 1e-5", () => {
    for (const expected of [singles, pairs])
      scope(() =>
        noGrad(() => {
          const input = inputOf(expected);
          const { config } = model.architecture;
          const embedded = embedInput(config, model.weights, input, evalMode);
          const hidden = encodeLayers(config, model.weights, embedded, input.attentionBias, evalMode, "all");
          for (const [row, values] of expected.hidden.entries()) {
            const text = hidden.select(0, row).narrow(0, 0, values.length / config.hiddenSize);
            expectClose(text.toFloat32Array(), values, 1e-5, `hidden states of text ${row}`);
          }
          const { logits, features: feature } = forward(model.architecture, model.weights, input, evalMode);
          expectClose(logits.toFloat32Array(), expected.logits, 1e-5, "logits");
          expectClose(
            feature.toFloat32Array(),
            expected.hidden.flatMap((values) => values.slice(0, config.hiddenSize)),
            1e-5,
            "feature",
          );
        }),
      );
  });

  it("gives the same loss and the same gradient of every parameter to 1e-5", async () => {
    const expected = await readTensors(join(folderOf(name), "gradients.safetensors"));
    expect(new Set(expected.keys())).toEqual(new Set(model.weights.keys()));
    scope(() => {
      const { logits } = forward(model.architecture, model.weights, inputOf(pairs, 3), evalMode);
      const loss = crossEntropy(logits, tensor(Int32Array.from(pairs.labels)));
      expect(loss.item()).toBeCloseTo(pairs.loss, 5);
      const names = [...model.weights.keys()];
      const gradients = grad(loss, [...model.weights.values()]);
      for (const [i, parameter] of names.entries()) {
        const values = expected.get(parameter) as Float32Array;
        const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
        expectClose((gradients[i] as Tensor).toFloat32Array(), values, 1e-5 * Math.max(1, largest), parameter);
      }
      // A comparison of zeros would prove nothing.
      expect(gradients.filter((gradient) => gradient.abs().sum().item() > 1e-3).length).toBeGreaterThan(
        names.length * 0.85,
      );
    });
  });

  it("computes the same from word embeddings and from the embedding layer's output", () =>
    scope(() => {
      const { attentionBias: bias, tokenTypeIds: types = null, inputIds: ids } = inputOf(pairs);
      const { architecture: shape, weights } = model;
      const words = embedWords(shape.config, weights, ids);
      const embedded = applyEmbeddingLayer(shape.config, weights, words, types, evalMode);
      const expected = forward(
        shape,
        weights,
        { inputIds: ids, tokenTypeIds: types, attentionBias: bias },
        evalMode,
      ).logits.toFloat32Array();
      expect(
        forward(
          shape,
          weights,
          { wordEmbeddings: words, tokenTypeIds: types, attentionBias: bias },
          evalMode,
        ).logits.toFloat32Array(),
      ).toEqual(expected);
      expect(
        forward(shape, weights, { embeddingOutput: embedded, attentionBias: bias }, evalMode).logits.toFloat32Array(),
      ).toEqual(expected);
    }));

  it("gives gradients with respect to the embeddings, none of them at padding", () =>
    scope(() => {
      const input = inputOf(pairs);
      const words = embedWords(model.architecture.config, model.weights, input.inputIds).detach().requiresGrad_();
      const { logits } = forward(model.architecture, model.weights, { ...input, wordEmbeddings: words }, evalMode);
      const [gradient] = grad(logits.select(1, 0).sum(), [words]) as [Tensor];
      const norms = gradient.norm([-1]); // [row, position]
      for (const [row, ids] of pairs.ids.entries()) {
        const seen = norms.select(0, row).toFloat32Array();
        expect(seen.slice(0, ids.length).every((norm) => norm > 0)).toBe(true);
        expect(seen.slice(ids.length).every((norm) => norm === 0)).toBe(true);
      }
    }));

  it("the first position alone equals the first of all, values and gradients", () =>
    scope(() => {
      const input = inputOf(pairs);
      const { config } = model.architecture;
      const weights = [...model.weights].filter(([name]) => name.includes(".encoder.")).map(([, tensor]) => tensor);
      const run = (wanted: "first" | "all"): number[][] => {
        const embedded = embedInput(config, model.weights, input, evalMode);
        const first = encodeLayers(config, model.weights, embedded, input.attentionBias, evalMode, wanted).select(1, 0);
        return [first, ...grad(first.square().sum(), weights)].map((tensor) => [...tensor.toFloat32Array()]);
      };
      const all = run("all");
      for (const [i, values] of run("first").entries()) {
        const largest = (all[i] as number[]).reduce((most, value) => Math.max(most, Math.abs(value)), 1);
        expectClose(values, all[i] as number[], 1e-5 * largest, `tensor ${i}`);
      }
    }));

  it("does not mind padding, nor the company of other texts", () =>
    scope(() => {
      const alone = { ...singles, texts: singles.texts.slice(0, 1) };
      const input = inputOf(alone);
      expect(input.attentionBias).toBeNull();
      const expected = forward(model.architecture, model.weights, input, evalMode).logits.toFloat32Array();
      expectClose(
        forward(model.architecture, model.weights, inputOf(alone, 9), evalMode).logits.toFloat32Array(),
        expected,
        1e-5,
        "padded",
      );
      const among = forward(model.architecture, model.weights, inputOf(singles), evalMode).logits.toFloat32Array();
      expectClose(among.slice(0, expected.length), expected, 1e-5, "among others");
    }));

  it("drops out in training: the same by seed, something else by another", () =>
    scope(() => {
      const run = (seed: number): Float32Array => {
        seedGenerator("cpu", seed);
        return forward(model.architecture, model.weights, inputOf(singles), trainMode).logits.toFloat32Array();
      };
      expect(run(1)).toEqual(run(1));
      expect(run(1)).not.toEqual(run(2));
    }));

  it("leaves nothing behind", () => {
    const before = getMemoryStats().tensors;
    scope(() => {
      const { logits } = forward(model.architecture, model.weights, inputOf(pairs), trainMode);
      grad(logits.sum(), [...model.weights.values()]);
    });
    expect(getMemoryStats().tensors).toBe(before);
  });

  it("takes the mean over a text's own tokens as its feature, where that is asked for", () =>
    scope(() => {
      const mean = extractFeatures(
        { ...model.architecture, pooling: "mean" },
        model.weights,
        inputOf(pairs),
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
