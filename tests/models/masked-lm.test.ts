import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { loadMaskedLm, predictAtPositions, scoreTokens } from "../../src/models/index.js";
import { free } from "../../src/tensor/index.js";
import { expectClose, expectComputed } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { writeFamilyMaskedLm } from "./family-models.js";

const fixtures = fileURLToPath(new URL("../fixtures", import.meta.url));
const temporary = temporaryFolder();

/** Gives a BERT a decoder with the opposite signs, which reverses the order of the tokens, up to the bias. */
async function writeUntied(folder: string): Promise<string> {
  await writeFamilyMaskedLm(folder, "bert", (tensors) => {
    const words = tensors.find(({ name }) => name === "bert.embeddings.word_embeddings.weight")!;
    const negate = (): Uint8Array => {
      const values = new Float32Array(words.bytes().slice().buffer);
      return new Uint8Array(values.map((value) => -value).buffer);
    };
    return [...tensors, { ...words, name: "cls.predictions.decoder.weight", bytes: negate }];
  });
  const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8")) as object;
  writeFileSync(join(folder, "config.json"), JSON.stringify({ ...config, tie_word_embeddings: false }));
  return folder;
}

test("predicts the most probable tokens at several positions", async () => {
  const loaded = await loadMaskedLm(await writeFamilyMaskedLm(join(temporary, "tied"), "bert"));
  const encoding = loaded.tokenizer.encode(["the film was [MASK]"], 24);
  const position = encoding.ids.indexOf(loaded.maskId);
  const positions = [position - 1, position];
  const predicted = predictAtPositions(loaded, [{ encoding, positions }], 51)[0]!;
  expect(predicted).toHaveLength(2);
  for (const tokens of predicted) {
    expectClose(
      tokens.reduce((sum, { probability }) => sum + probability, 0),
      1,
      { terms: 51 },
    );
    expect(tokens.every(({ probability }, i) => i === 0 || probability <= tokens[i - 1]!.probability)).toBe(true);
  }
  const first = predicted[1]!;
  const score = (): Float32Array =>
    scoreTokens(loaded, [{ encoding, position, candidateIds: first.map(({ id }) => id) }])[0]!;
  expectComputed(
    () => Array.from(score(), Math.exp),
    first.map(({ probability }) => probability),
  );
  free(loaded.weights);
});

test("an untied decoder is used instead of the word embeddings", async () => {
  const [tied, untied] = [
    await loadMaskedLm(join(temporary, "tied")),
    await loadMaskedLm(await writeUntied(join(temporary, "untied"))),
  ];
  const encoding = tied.tokenizer.encode(["the film was [MASK]"], 24);
  const query = { encoding, positions: [encoding.ids.indexOf(tied.maskId)] };
  const [a, b] = [tied, untied].map((model) => predictAtPositions(model, [query], 1)[0]![0]!);
  expect(untied.weights.has("cls.predictions.decoder.weight")).toBe(true);
  expect(tied.weights.has("cls.predictions.decoder.weight")).toBe(false);
  expect(b![0]!.id).not.toBe(a![0]!.id);
  free([tied.weights, untied.weights]);
});

test("rejects a checkpoint without the head", async () => {
  await expect(loadMaskedLm(join(fixtures, "bert-tiny"))).rejects.toThrow(
    /has no head of a masked language model: the checkpoint lacks cls\.predictions\./,
  );
});
