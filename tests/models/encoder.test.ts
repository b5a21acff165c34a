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
  tokenizeAll,
  toModelInput,
} from "../../src/models/index.js";
import { evalMode } from "../../src/nn/index.js";
import { free, grad, scope, type Tensor } from "../../src/tensor/index.js";
import { padBatch } from "../../src/text/batch.js";
import { expectComputed } from "../rounding.js";
import { computeLogits, getFixtureFolder, tinyModels } from "./tiny.js";

const singles = [["the film was a joy"], ["not bad"], ["a dull, cold and far too long film"]];
const pairs = [
  ["the film was a joy", "a good film"],
  ["not bad", "a dull film with a long plot"],
];

// tests/models/families.test.ts compares the numbers of every family with transformers.
describe.each(tinyModels)("%s", (name) => {
  let model: Model;
  beforeAll(async () => {
    model = await loadModel(getFixtureFolder(name));
  });
  afterAll(() => free(model.weights));

  const createInput = (texts: readonly string[][], padding = 0): TokenInput => {
    const encoded = tokenizeAll(model, texts);
    const length = Math.max(...encoded.map(({ ids }) => ids.length)) + padding;
    const padded = padBatch(encoded, model.tokenizer.special.padId, { length });
    return toModelInput(padded, model.architecture.config, "cpu");
  };
  const computeLogits = (input: EncoderInput): Float32Array =>
    forward(model.architecture, model.weights, input, evalMode).logits.toFloat32Array();
  const encode = (input: TokenInput, positions: "first" | "all"): Tensor => {
    const { config } = model.architecture;
    const embeddingOutput = embedInput(config, model.weights, input, evalMode);
    return encodeLayers(config, model.weights, embeddingOutput, input, evalMode, positions);
  };

  it("computes the same from word embeddings and from the embedding output", () =>
    scope(() => {
      const { attentionBias, tokenTypeIds = null, inputIds } = createInput(pairs);
      const { config } = model.architecture;
      const wordEmbeddings = embedWords(config, model.weights, inputIds);
      const words = { wordEmbeddings, tokenTypeIds, attentionBias };
      const embeddingOutput = embedInput(config, model.weights, words, evalMode);
      const expected = computeLogits({ inputIds, tokenTypeIds, attentionBias });
      expect(computeLogits(words)).toEqual(expected);
      expect(computeLogits({ embeddingOutput, attentionBias })).toEqual(expected);
    }));

  it("has gradients for the embeddings, which are 0 at padding", () =>
    scope(() => {
      const input = createInput(pairs);
      const words = embedWords(model.architecture.config, model.weights, input.inputIds).detach().requiresGrad_();
      const { logits } = forward(model.architecture, model.weights, { ...input, wordEmbeddings: words }, evalMode);
      const [gradient] = grad(logits.select(1, 0).sum(), [words]) as [Tensor];
      const norms = gradient.norm([-1]); // [row, position]
      for (const [row, { ids }] of tokenizeAll(model, pairs).entries()) {
        const rowNorms = norms.select(0, row).toFloat32Array();
        expect(rowNorms.slice(0, ids.length).every((norm) => norm > 0)).toBe(true);
        expect(rowNorms.slice(ids.length).every((norm) => norm === 0)).toBe(true);
      }
    }));

  it("computing only the first position gives the same values and gradients", () =>
    scope(() => {
      const input = createInput(pairs);
      const weights = [...model.weights].filter(([name]) => name.includes(".encoder.")).map(([, tensor]) => tensor);
      const run = (positions: "first" | "all"): Record<string, Float32Array> => {
        const first = encode(input, positions).select(1, 0);
        const results = [first, ...grad(first.square().sum(), weights)];
        return Object.fromEntries(results.map((result, i) => [`tensor ${i}`, result.toFloat32Array()]));
      };
      expectComputed(() => run("first"), run("all"));
    }));

  it("does not depend on padding or other texts in the batch", () =>
    scope(() => {
      const alone = singles.slice(0, 1);
      const input = createInput(alone);
      expect(input.attentionBias).toBeNull();
      const expected = computeLogits(input);
      expectComputed(() => computeLogits(createInput(alone, 9)), expected, {}, "padded");
      expectComputed(() => computeLogits(createInput(singles)).slice(0, expected.length), expected, {}, "in a batch");
    }));

  it("mean pooling averages over the tokens without padding", () =>
    scope(() => {
      const architecture = { ...model.architecture, pooling: "mean" } as const;
      const pool = (): Tensor => extractFeatures(architecture, model.weights, createInput(pairs), evalMode);
      const hidden = encode(createInput(pairs), "all");
      const means = tokenizeAll(model, pairs).map(({ ids }, row) =>
        hidden.select(0, row).narrow(0, 0, ids.length).mean([0]),
      );
      expectComputed(
        pool,
        means.flatMap((mean) => [...mean.toFloat32Array()]),
      );
    }));
});

/** Returns the logits of the first text of a batch. */
const computeFirst = (model: Model, texts: string[]): Float32Array =>
  computeLogits(
    model,
    texts.map((text) => [text]),
  ).slice(0, model.architecture.numLabels);

it("a literal <pad> in a RoBERTa text is a token, not padding", async () => {
  const model = await loadModel(getFixtureFolder("roberta-random"));
  const { padId } = model.tokenizer.special;
  expect([...model.tokenizer.encode(["the <pad> film"], 16).ids].indexOf(padId)).toBe(3);
  const alone = computeFirst(model, ["the <pad> film"]);
  const batch = ["the <pad> film", "a much longer text than the one above, with more words"];
  expectComputed(() => computeFirst(model, batch), alone);
  // If it were padding, it would have no effect on the text before it.
  const without = computeFirst(model, ["the  film"]);
  expect(Math.max(...alone.map((value, index) => Math.abs(value - without[index]!)))).toBeGreaterThan(1e-4);
  free(model.weights);
});
