import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AutoTokenizer, env } from "@huggingface/transformers";
import { beforeAll, expect, test } from "vitest";
import { exportModel } from "../../src/actions/export.js";
import { loadClassifier } from "../../src/actions/predict/text-classifier.js";
import { train } from "../../src/actions/train/train.js";
import { Rng } from "../../src/base/rng.js";
import { readTextSettings } from "../../src/models/checkpoint/load.js";
import { writeSafetensors } from "../../src/models/checkpoint/safetensors-writer.js";
import { parseModelConfig } from "../../src/models/config.js";
import { getEncoderParameterShapes } from "../../src/models/encoder.js";
import { loadTokenizer } from "../../src/text/tokenizer.js";
import { type TinyVictim, tinyVictim } from "../attacks/tiny-victim.js";
import { invoke } from "../cli/invoke.js";
import { createRandomTensors } from "../cli/tiny-model.js";
import { expectClose, expectComputedAsync, getProbabilities, measureProbabilitySpread } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { strangeText } from "../text/strange-texts.js";
import { reviews } from "../tiny-run.js";

const folder = temporaryFolder();
let victim: TinyVictim;

beforeAll(async () => {
  victim = await tinyVictim(join(folder, "word"), { tokenization: "word" });
});

test("export writes the layout of transformers.js and compares the models", async () => {
  const out = join(folder, "exported");
  const { stdout, code } = await invoke(["export", victim.run, "--to", "onnx", "--quantize", "int8", "--out", out]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/model\.onnx: the largest difference of a probability is \d/);
  expect(readdirSync(out).sort()).toEqual([
    ...["config.json", "config.yaml", "onnx", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"],
  ]);
  expect(readdirSync(join(out, "onnx")).sort()).toEqual(["model.onnx", "model_quantized.onnx"]);
  const config = JSON.parse(readFileSync(join(out, "config.json"), "utf8")) as Record<string, unknown>;
  expect(config).toMatchObject({ architectures: ["BertForSequenceClassification"] });
  expect(config.temper).toMatchObject({ exportedFrom: { model: expect.any(String) as string } });
});

test("the exported model has the same probabilities, and int8 nearly the same", async () => {
  const out = join(folder, "checked");
  const { check, problem } = await exportModel({ model: victim.run, out, quantize: "int8", data: victim.data });
  expect(problem).toBeNull();
  expect(check!.texts).toBeGreaterThan(10);
  await using original = await loadClassifier(victim.run, { device: "cpu", threads: 1 });
  const texts = reviews(60, "checked").map(({ text }) => text);
  const spread = await measureProbabilitySpread(original, texts);
  expectClose(check!.model.maxDifference, 0, { scale: 1, spread });
  expect(check!.quantized!.sameLabels).toBeGreaterThan(0.95);
  expect(check!.quantized!.maxDifference).toBeGreaterThan(1e-6);
});

test.each(["word", "released-word"] as const)(
  "transformers.js splits texts into the same words, %s",
  async (tokenization) => {
    const { run } = tokenization === "word" ? victim : await tinyVictim(join(folder, tokenization), { tokenization });
    const out = join(folder, `tokens-${tokenization}`);
    await exportModel({ model: run, out });
    env.allowRemoteModels = false;
    env.localModelPath = folder;
    const theirs = await AutoTokenizer.from_pretrained(`tokens-${tokenization}`);
    // The saved model says how it reads text.
    const { tokenizer: ours } = await readTextSettings(run, join(run, "model"), {});
    const rng = new Rng("word level");
    const plain =
      "The film's plot wasn't good: it cannot be, e.g. 10/10 or $3.50, O'Toole -- well-known 10-year-old's pre- \u00e9 \u2764\ufe0f [SEP] :-) I'LL";
    // Words that start with a combining mark are the only ones that a normalizer before the split can change.
    const startsWithMark = /(?<!\p{L})\p{Mn}+[\p{L}\p{N}]|['’]\p{L}+\p{Mn}/u;
    const strange = Array.from({ length: 500 }, () => strangeText(rng).replaceAll(/[\ud800-\udfff]/g, "")).filter(
      (text) => !startsWithMark.test(text),
    );
    expect(strange.length).toBeGreaterThan(400);
    for (const text of [plain, ...strange]) {
      const expected = ours.encodeWords([text], 10_000).ids;
      expect(theirs.encode(text), JSON.stringify(text)).toEqual([...expected]);
    }
  },
);

test("a folder with content and an unknown format are rejected, and nothing is written", async () => {
  const full = await invoke(["export", victim.run, "--out", victim.run]);
  expect([full.code, full.stderr]).toEqual([2, expect.stringContaining("expected a new or empty folder")]);
  const other = join(folder, "other");
  const format = await invoke(["export", victim.run, "--to", "tflite", "--out", other]);
  expect([format.code, format.stderr]).toEqual([2, expect.stringContaining("Expected onnx")]);
  expect(existsSync(other)).toBe(false);
});

test("a word model with byte-level BPE predicts the same from its export, and other libraries refuse its tokenizer", async () => {
  const model = join(folder, "roberta");
  mkdirSync(model);
  copyFileSync("tests/fixtures/roberta-tiny/tokenizer.json", join(model, "tokenizer.json"));
  const base = JSON.parse(readFileSync("tests/fixtures/families/roberta/config.json", "utf8")) as object;
  const config = { ...base, vocab_size: 1004 };
  writeFileSync(join(model, "config.json"), JSON.stringify(config));
  const shapes = getEncoderParameterShapes(parseModelConfig(config, "roberta"));
  await writeSafetensors(join(model, "model.safetensors"), createRandomTensors(shapes, 2));
  const [run, out] = [join(folder, "roberta-run"), join(folder, "roberta-exported")];
  const columns = { textColumn: ["text"], labelColumn: "label", maxLength: 16, tokenization: "word" } as const;
  await train({ model, data: victim.data, ...columns, device: "cpu", threads: 1, train: { epochs: 1 }, out: run });
  await exportModel({ model: run, out, threads: 1 });
  for (const each of [join(run, "model"), out]) {
    const { temper } = JSON.parse(readFileSync(join(each, "config.json"), "utf8")) as { temper: { note: string } };
    expect(temper.note).toContain("reads the first piece of each word");
    expect(existsSync(join(each, "tokenizer.json"))).toBe(false);
    expect((await loadTokenizer(each)).hash).toBe((await loadTokenizer(model)).hash);
  }
  env.allowRemoteModels = false;
  env.localModelPath = folder;
  await expect(AutoTokenizer.from_pretrained("roberta-exported")).rejects.toThrow("tokenizer.json");
  const texts = ["a filmography of unknownish words", "good", "it's bad, isn't it?", "x ".repeat(40)];
  await using original = await loadClassifier(run, { device: "cpu", threads: 1 });
  await using exported = await loadClassifier(out, { threads: 1 });
  const expected = getProbabilities(await exported.classify(texts));
  await expectComputedAsync(async () => getProbabilities(await original.classify(texts)), expected);
});
