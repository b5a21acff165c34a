import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { readJournal } from "../../src/attacks/journal.js";
import { createRecipeAttack } from "../../src/attacks/load-attack.js";
import { recipes } from "../../src/attacks/recipes/index.js";
import { parseModelConfig } from "../../src/models/config.js";
import { getMaskedLmParameterShapes } from "../../src/models/heads.js";
import { attack } from "../../src/runs/attack.js";
import { verify } from "../../src/runs/verify.js";
import { Rng } from "../../src/tensor/random.js";
import { type TinyVictim, tinyVictim } from "../attacks/tiny-victim.js";
import { tinyConfig, writeTinyModel } from "../cli/tiny-model.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
let victim: TinyVictim;
let word: TinyVictim;

beforeAll(async () => {
  await writeMaskedLm(join(folder, "masked-lm"));
  victim = await tinyVictim(join(folder, "subword"));
  word = await tinyVictim(join(folder, "word"), { tokenization: "word", seed: 1 });
}, 120_000);
beforeEach(() => vi.stubEnv("TEMPER_CACHE", join(folder, "cache")));
afterEach(() => vi.unstubAllEnvs());

/** Small populations, so that every recipe takes little time. */
const specs = [...recipes.keys()].map((name) => {
  const options: Record<string, unknown> = {
    ...{ alzantot: { population: 4, iterations: 2 }, "faster-alzantot": { population: 4, iterations: 2 } }[name],
    ...{ iga: { population: 4, iterations: 2 }, pso: { population: 4, iterations: 2 } }[name],
    ...{ leap: { population: 4, iterations: 2 }, "bad-characters": { populationSize: 4, iterations: 2 } }[name],
    ...{ evasion: { benignLabel: "positive", paddingWords: 20 } }[name],
  };
  return { name, options };
});

const vocabulary = "[PAD] [UNK] [CLS] [SEP] [MASK] good fine bad dull film plot the was very ##s .".split(" ");

/** Writes a masked language model with random weights. */
function writeMaskedLm(path: string): Promise<string> {
  const rng = new Rng(2);
  const shapes = getMaskedLmParameterShapes(
    parseModelConfig({ ...tinyConfig, vocab_size: vocabulary.length, tie_word_embeddings: true }, "tiny"),
  );
  const heads = [...shapes].map(([name, shape]) => {
    const values = Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => rng.next() - 0.5);
    return { name, dtype: "F32" as const, shape, bytes: () => new Uint8Array(values.buffer) };
  });
  return writeTinyModel(path, (tensors) => [...tensors, ...heads], vocabulary);
}

const encoder = () => ({
  sentenceEncoder: join(folder, "subword/tiny-bert"),
  maskedLm: join(folder, "masked-lm"),
});

test("every recipe runs, and verify replays its journal", async () => {
  for (const made of [victim, word]) {
    const out = join(folder, made === word ? "word-out" : "subword-out");
    const request = {
      ...{ model: made.run, data: made.data, attacks: specs, numExamples: 6, out, device: "cpu", threads: 1 },
      ...encoder(),
    } as const;
    const report = await attack(request);
    expect(Object.keys(report.attacks)).toEqual([...recipes.keys()]);
    const journals = specs.map(({ name }) => join(out, `${name}.jsonl`));
    const verified = await verify({ journals, model: made.run, device: "cpu", threads: 1 });
    expect(verified.map(({ lines }) => lines)).toEqual(specs.map(() => 6));
    if (made === word) continue;
    // The same request gives the same journals.
    const again = await attack({ ...request, out: `${out}-again`, cache: false });
    expect(again.worstCase).toBe(report.worstCase);
    for (const { name } of specs) {
      const read = (path: string): string => readFileSync(join(path, `${name}.jsonl`), "utf8");
      expect(read(`${out}-again`), name).toBe(read(out));
    }
  }
}, 120_000);

test("budgets are kept, and protected text stays", async () => {
  const out = join(folder, "limited");
  await attack({
    ...{ model: victim.run, data: victim.data, attacks: specs, numExamples: 6, out, device: "cpu", threads: 1 },
    ...encoder(),
    ...{ queryBudget: 9, protect: ["film|plot"] },
  });
  for (const { name } of specs)
    for await (const { result } of readJournal(join(out, `${name}.jsonl`))) {
      expect(result.queries, name).toBeLessThanOrEqual(9);
      for (const { from } of result.edits) expect(["film", "plot"], name).not.toContain(from);
    }
}, 60_000);

test("a recipe without its resource, an unknown label or a bad expression is a clear error", async () => {
  const request = { model: victim.run, data: victim.data, numExamples: 2, out: join(folder, "errors"), device: "cpu" };
  const fail = (more: object) => expect(attack({ ...request, ...encoder(), ...more } as never)).rejects;
  await fail({ attacks: ["bae"], maskedLm: null }).toThrow("attack bae needs mlm. Pass --masked-lm MODEL");
  await fail({ attacks: ["bae"], maskedLm: victim.run }).toThrow("--masked-lm: ");
  await fail({ attacks: ["evasion"] }).toThrow("benignLabel");
  await fail({ attacks: ["evasion:benignLabel=ham"] }).toThrow("expected one of the labels negative, positive");
  await fail({ attacks: ["pruthi"], protect: ["("] }).toThrow("--protect: expected a regular expression");
  await fail({ attacks: ["pruthi"], protect: ["."] }).toThrow("no word of 2 examples has a substitute");
  await fail({ attacks: ["textfooler"], sentenceEncoder: join(folder, "none") }).toThrow("--sentence-encoder: ");
  expect(() => createRecipeAttack("a2t", {}, { labels: [] })).toThrow("needs neighbors");
});

test("texts that are empty, have one word, 10,000 words or no Latin letters are attacked or left as they are", async () => {
  const texts = [
    "",
    "good",
    Array.from({ length: 10_000 }, () => "fine").join(" "),
    "\u0445\u043e\u0440\u043e\u0448\u0438\u0439 \u0444\u0438\u043b\u044c\u043c",
    "!!! ???",
  ];
  const data = join(folder, "odd.jsonl");
  writeFileSync(
    data,
    texts.map((text, i) => JSON.stringify({ text, label: i % 2 ? "positive" : "negative" })).join("\n"),
  );
  const attacks = specs.filter(({ name }) => !["clare", "hotflip"].includes(name));
  const out = join(folder, "odd");
  const options = { ...encoder(), queryBudget: 30, out, device: "cpu", threads: 1, skipBadRows: true } as const;
  const report = await attack({ model: victim.run, data, attacks, ...options });
  expect(report.examples).toBeGreaterThanOrEqual(4);
  await verify({ journals: attacks.map(({ name }) => join(out, `${name}.jsonl`)), model: victim.run, device: "cpu" });
}, 60_000);
