import { expect, it } from "vitest";
import { loadModel, type Model } from "../../src/models/index.js";
import { free } from "../../src/tensor/index.js";
import { expectComputed } from "../rounding.js";
import { computeLogits, getFixtureFolder } from "./tiny.js";

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
