import { expect, it } from "vitest";
import { forward, loadModel, type Model, tokenizeAll, toModelInput } from "../../src/models/index.js";
import { evalMode } from "../../src/nn/index.js";
import { free, noGrad, scope } from "../../src/tensor/index.js";
import { padBatch } from "../../src/text/batch.js";
import { expectComputed } from "../rounding.js";
import { getFixtureFolder } from "./tiny.js";

/** Returns the logits of the first text of a batch. */
function computeLogits(
  { tokenizer, tokenization, maxLength, architecture, weights }: Model,
  texts: string[],
): number[] {
  const encodings = tokenizeAll(
    { tokenizer, tokenization, maxLength },
    texts.map((text) => [text]),
  );
  const padded = padBatch(encodings, tokenizer.special.padId);
  return scope(() => {
    const input = toModelInput(padded, architecture.config, "cpu");
    const { logits } = noGrad(() => forward(architecture, weights, input, evalMode));
    return [...logits.toFloat32Array()].slice(0, architecture.numLabels);
  });
}

it("a literal <pad> in a RoBERTa text is a token, not padding", async () => {
  const model = await loadModel(getFixtureFolder("roberta-random"));
  const { padId } = model.tokenizer.special;
  expect([...model.tokenizer.encode(["the <pad> film"], 16).ids].indexOf(padId)).toBe(3);
  const alone = computeLogits(model, ["the <pad> film"]);
  const batch = ["the <pad> film", "a much longer text than the one above, with more words"];
  expectComputed(() => computeLogits(model, batch), alone);
  // If it were padding, it would have no effect on the text before it.
  const without = computeLogits(model, ["the  film"]);
  expect(Math.max(...alone.map((value, index) => Math.abs(value - without[index]!)))).toBeGreaterThan(1e-4);
  free(model.weights);
});
