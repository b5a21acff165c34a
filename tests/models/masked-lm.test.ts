import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { openSafetensors } from "../../src/models/checkpoint/safetensors.js";
import { writeSafetensors } from "../../src/models/checkpoint/safetensors-writer.js";
import { loadMaskedLm, predictAtPositions, scoreTokens } from "../../src/models/index.js";
import { free } from "../../src/tensor/index.js";
import { expectClose, expectComputed } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";

const fixtures = fileURLToPath(new URL("../fixtures", import.meta.url));
const temporary = temporaryFolder();

/** Writes a BERT with the head of a masked language model, tied or with a decoder of its own. */
async function writeMaskedBert(folder: string, isTied: boolean): Promise<string> {
  mkdirSync(folder);
  copyFileSync(join(fixtures, "bert-tiny/tokenizer.json"), join(folder, "tokenizer.json"));
  const config = JSON.parse(readFileSync(join(fixtures, "families/bert/config.json"), "utf8")) as object;
  writeFileSync(join(folder, "config.json"), JSON.stringify({ ...config, tie_word_embeddings: isTied }));
  const files = [
    await openSafetensors(join(fixtures, "families/bert/model.safetensors")),
    await openSafetensors(join(fixtures, "families/bert/masked-lm.safetensors")),
  ];
  const tensors = files.flatMap((file) =>
    [...file.entries].map(([name, { shape }]) => ({
      name,
      dtype: "F32" as const,
      shape,
      bytes: () => file.readSync(name),
    })),
  );
  const words = tensors.find(({ name }) => name === "bert.embeddings.word_embeddings.weight")!;
  // An untied decoder with the opposite signs reverses the order of the tokens, up to the bias.
  const negate = (): Uint8Array => {
    const values = new Float32Array(words.bytes().slice().buffer);
    return new Uint8Array(values.map((value) => -value).buffer);
  };
  if (!isTied) tensors.push({ ...words, name: "cls.predictions.decoder.weight", bytes: negate });
  await writeSafetensors(join(folder, "model.safetensors"), tensors);
  for (const file of files) await file.close();
  return folder;
}

test("predicts the most probable tokens at several positions", async () => {
  const loaded = await loadMaskedLm(await writeMaskedBert(join(temporary, "tied"), true));
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
    await loadMaskedLm(await writeMaskedBert(join(temporary, "untied"), false)),
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
