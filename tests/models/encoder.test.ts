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
import { expectComputed } from "../rounding.js";
import { type Expected, getFixtureFolder, readExpected, readTensors, tinyModels } from "./tiny.js";

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

  /** The hidden states of each text, the logits and the features. */
  function encodeTexts(texts: Expected): Record<string, ArrayLike<number>> {
    return scope(() =>
      noGrad(() => {
        const input = createInput(texts);
        const { config } = model.architecture;
        const embeddingOutput = embedInput(config, model.weights, input, evalMode);
        const hidden = encodeLayers(config, model.weights, embeddingOutput, input, evalMode, "all");
        const rows = texts.hidden.map((values, row): [string, Float32Array] => [
          `hidden states of text ${row}`,
          hidden
            .select(0, row)
            .narrow(0, 0, values.length / config.hiddenSize)
            .toFloat32Array(),
        ]);
        const { logits, features } = forward(model.architecture, model.weights, input, evalMode);
        return {
          ...Object.fromEntries(rows),
          logits: logits.toFloat32Array(),
          features: features.toFloat32Array(),
        };
      }),
    );
  }

  it("has the same hidden states, logits and features", () => {
    const { hiddenSize } = model.architecture.config;
    for (const expected of [singles, pairs])
      expectComputed(() => encodeTexts(expected), {
        ...Object.fromEntries(expected.hidden.map((values, row) => [`hidden states of text ${row}`, values])),
        logits: expected.logits,
        features: expected.hidden.flatMap((values) => values.slice(0, hiddenSize)),
      });
  });

  it("has the same loss and the same gradient of every parameter", async () => {
    const expected = await readTensors(join(getFixtureFolder(name), "gradients.safetensors"));
    expect(new Set(expected.keys())).toEqual(new Set(model.weights.keys()));
    scope(() => {
      const names = [...model.weights.keys()];
      const compute = (): Tensor[] => {
        const { logits } = forward(model.architecture, model.weights, createInput(pairs, 3), evalMode);
        const loss = crossEntropy(logits, tensor(Int32Array.from(pairs.labels)));
        return [loss, ...grad(loss, [...model.weights.values()])];
      };
      const toLists = (results: readonly Tensor[]): Map<string, Tensor> =>
        new Map(results.map((result, i) => [i === 0 ? "loss" : names[i - 1]!, result]));
      const [, ...gradients] = compute();
      expectComputed(
        () => toLists(compute()),
        new Map<string, number | Float32Array>([...expected, ["loss", pairs.loss]]),
      );
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
      const run = (positions: "first" | "all"): Record<string, Float32Array> => {
        const embeddingOutput = embedInput(config, model.weights, input, evalMode);
        const hidden = encodeLayers(config, model.weights, embeddingOutput, input, evalMode, positions);
        const first = hidden.select(1, 0);
        const results = [first, ...grad(first.square().sum(), weights)];
        return Object.fromEntries(results.map((result, i) => [`tensor ${i}`, result.toFloat32Array()]));
      };
      expectComputed(() => run("first"), run("all"));
    }));

  it("does not depend on padding or other texts in the batch", () =>
    scope(() => {
      const alone = { ...singles, texts: singles.texts.slice(0, 1) };
      const input = createInput(alone);
      expect(input.attentionBias).toBeNull();
      const computeLogits = (given: TokenInput): Float32Array =>
        forward(model.architecture, model.weights, given, evalMode).logits.toFloat32Array();
      const expected = computeLogits(input);
      expectComputed(() => computeLogits(createInput(alone, 9)), expected, {}, "padded");
      expectComputed(() => computeLogits(createInput(singles)).slice(0, expected.length), expected, {}, "in a batch");
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
      const architecture = { ...model.architecture, pooling: "mean" } as const;
      const pool = (): Tensor => extractFeatures(architecture, model.weights, createInput(pairs), evalMode);
      const width = model.architecture.config.hiddenSize;
      const expected = pairs.hidden.flatMap((values) =>
        Array.from({ length: width }, (_, k) => {
          const column = values.filter((_, i) => i % width === k);
          return column.reduce((sum, value) => sum + value, 0) / column.length;
        }),
      );
      expectComputed(pool, expected);
    }));
});
