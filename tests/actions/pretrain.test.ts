import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { createMaskedDataset, type PretrainRequest, pretrain } from "../../src/actions/pretrain.js";
import { type Callbacks, listen } from "../../src/base/events.js";
import { loadMaskedLm, loadModel, predictAtPositions } from "../../src/models/index.js";
import { free, Rng } from "../../src/tensor/index.js";
import { maskTokens } from "../../src/text/mask-tokens.js";
import { packTexts } from "../../src/text/pack-sequences.js";
import { loadTokenizer } from "../../src/text/tokenizer.js";
import { Interrupted } from "../../src/train/index.js";
import { testLong } from "../long.js";
import { writeFamilyMaskedLm } from "../models/family-models.js";
import { findPython, runPython } from "../python.js";
import { expectClose, float64, measureSpread } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
const data = join(folder, "texts.txt");
let model: string;

beforeAll(async () => {
  model = await writeFamilyMaskedLm(join(folder, "bert"), "bert");
  // Every text repeats itself, so a model can predict its masked words.
  const words = "the film was joy bad dull and cat".split(" ");
  const texts = Array.from({ length: 60 }, (_, i) => new Array(9).fill(words[i % words.length]).join(" "));
  writeFileSync(data, `${texts.join("\n\n")}\n`);
});

function run(name: string, changes: Partial<PretrainRequest> = {}, callbacks: Callbacks = {}) {
  const train = { epochs: 4, batchSize: 4, learningRate: 1e-2, saveSteps: 5, ...changes.train };
  const request = { model, data, maxLength: 20, device: "cpu", threads: 1, ...changes, train };
  return pretrain({ ...request, out: join(folder, name) }, callbacks);
}

const readModel = (name: string): Buffer => readFileSync(join(folder, name, "model/model.safetensors"));
const readEvents = (name: string): string => readFileSync(join(folder, name, "events.jsonl"), "utf8");

describe("masks", () => {
  test("cover 15% of the tokens: 80% masks, 10% random tokens, 10% unchanged", async () => {
    const tokenizer = await loadTokenizer(model);
    const maskId = tokenizer.special.maskId!;
    const text = new Array(2000).fill("the film was dull").join(" ");
    const sequences = packTexts(tokenizer, [text], 22);
    expect(sequences.slice(0, -1).every(({ ids }) => ids.length === 22)).toBe(true);
    const counts = { masked: 0, unchanged: 0, random: 0 };
    const byPosition = new Array<number>(22).fill(0);
    for (const [i, sequence] of sequences.slice(0, -1).entries()) {
      const options = { probability: 0.15, maxTokens: 20, maskId };
      const { ids, positions, labels } = maskTokens(sequence, tokenizer, options, new Rng(i));
      expect(positions.length).toBe(3);
      expect(new Set(positions).size).toBe(3);
      for (const [k, position] of positions.entries()) {
        byPosition[position]!++;
        expect(labels[k]).toBe(sequence.ids[position]);
        if (ids[position] === maskId) counts.masked++;
        else if (ids[position] === labels[k]) counts.unchanged++;
        else counts.random++;
      }
      const changed = ids.filter((id, position) => id !== sequence.ids[position]).length;
      expect(changed).toBeLessThanOrEqual(3);
    }
    const total = counts.masked + counts.unchanged + counts.random;
    for (const [kind, probability] of [
      ["masked", 0.8],
      ["random", 0.1],
      ["unchanged", 0.1],
    ] as const) {
      // Four standard errors. A random token may also be the mask or the same.
      const error = 4 * Math.sqrt(total * probability * (1 - probability)) + (0.1 * total * 2) / tokenizer.vocabSize;
      expect(Math.abs(counts[kind] - probability * total), kind).toBeLessThan(error);
    }
    expect([byPosition[0], byPosition[21]]).toEqual([0, 0]);
    expect(Math.min(...byPosition.slice(1, 21))).toBeGreaterThan(total / 20 / 2);
  });

  test("of whole words cover all tokens of a word, and the labels have a fixed number", async () => {
    const tokenizer = await loadTokenizer(model);
    const [sequence] = packTexts(tokenizer, ["the cats slowly filming, badly not joyly at films"], 24, true);
    const { ids, wordStarts } = sequence!;
    const words: number[][] = [];
    for (const [position, start] of wordStarts!.entries())
      if (start === 1 || words.length === 0) words.push([position]);
      else words.at(-1)!.push(position);
    const tokens = words.map((positions) => tokenizer.idsToTokens(positions.map((i) => ids[i]!)).join(""));
    expect(tokens.map((word) => word.replaceAll("##", ""))).toEqual(
      "[CLS] the cats slowly filming , badly not joyly at films [SEP]".split(" "),
    );
    const options = { probability: 0.4, maxTokens: 22, maskId: tokenizer.special.maskId! };
    for (let seed = 0; seed < 20; seed++) {
      const { positions, labels } = maskTokens(sequence!, tokenizer, options, new Rng(seed));
      const selected = new Set([...positions].filter((_, i) => labels[i] !== -100));
      for (const word of words)
        expect([0, word.length]).toContain(word.filter((position) => selected.has(position)).length);
      expect(positions.length).toBe(9);
      expect(selected.size).toBeGreaterThan(0);
    }
  });

  test("depend on the seed, the epoch and the sequence only", async () => {
    const tokenizer = await loadTokenizer(model);
    const texts = [{ id: "1", texts: ["the film was joy and the cat was bad and dull"], label: 0 }];
    const options = { maxLength: 12, maskProbability: 0.3, wholeWordMasking: false };
    const rng = new Rng(3);
    const source = { tokenizer, maskId: tokenizer.special.maskId! };
    const create = () => createMaskedDataset(source, texts, options, (epoch, i) => rng.fork("mask", epoch, i));
    const [first, second] = [create(), create()];
    expect(second.mask!(0, 1)).toEqual(first.mask!(0, 1));
    const epochs = Array.from({ length: 6 }, (_, epoch) => JSON.stringify([...first.mask!(0, epoch).ids]));
    expect(new Set(epochs).size).toBeGreaterThan(3);
  });
});

test("lowers the perplexity, and the result is a masked language model and an encoder", async () => {
  const { folder: saved, before, validation } = await run("standard");
  expectClose(validation!.perplexity!, Math.exp(validation!["log-loss"]!), float64);
  expect(validation!.perplexity).toBeLessThan(0.5 * before!.perplexity!);
  const maskedLm = await loadMaskedLm(saved);
  expect(maskedLm.newlyInitialized).toEqual([]);
  const classifier = await loadModel(saved, { labels: ["a", "b"] });
  expect(classifier.newlyInitialized.every((name) => /classifier|pooler/.test(name))).toBe(true);
  free([maskedLm.weights, classifier.weights]);
  expect(existsSync(join(folder, "standard/run.lock"))).toBe(false);
});

test("a stopped run continues bitwise identically, and only with the same settings", async () => {
  const stop = new AbortController();
  const callbacks = listen({ step: ({ step }) => step === 7 && stop.abort() });
  const stopped = run("resumed", {}, { ...callbacks, signal: stop.signal });
  await expect(stopped).rejects.toThrow(Interrupted);
  await expect(run("resumed", { maskProbability: 0.2, resume: true })).rejects.toThrow(
    /--resume with different settings: maskProbability was 0.15, is 0.2/,
  );
  await run("resumed", { resume: true });
  expect(readModel("resumed").equals(readModel("standard"))).toBe(true);
  expect(readEvents("resumed")).toBe(readEvents("standard"));
  // A finished one is only read.
  expect((await run("resumed", { resume: true })).steps).toBeGreaterThan(7);
});

testLong("rose that masks nothing is bitwise the standard training; the other methods change it", async () => {
  const rose = (options: object) => [{ name: "rose", options: { ...options } }];
  await run("rose-all", { methods: rose({ variant: "second", updateRatio: 1 }) });
  expect(readModel("rose-all").equals(readModel("standard"))).toBe(true);
  for (const method of ["rose", "child-tuning", "mixout", "ptwd"] as const) {
    const { validation, before } = await run(method, {
      methods: [method],
      wholeWordMasking: true,
      train: { epochs: 1 },
    });
    expect(validation!.perplexity, method).toBeLessThan(before!.perplexity!);
    expect(readModel(method).equals(readModel("standard"))).toBe(false);
  }
  const lines = readEvents("rose").split("\n");
  expect(JSON.parse(lines[3]!)["rose.updateRatio"]).toBeLessThan(1);
});

test("rejects what cannot work, and leaves nothing behind", async () => {
  await expect(run("bad", { methods: ["freelb"] })).rejects.toThrow(
    "methods: freelb does not work with a masked language model. Use standard, rose, child-tuning, mixout, ptwd.",
  );
  await expect(run("bad", { train: { batchSampler: "class-balanced" } })).rejects.toThrow("expected shuffled");
  await expect(run("bad", { data: join(folder, "none.txt") })).rejects.toThrow(/none\.txt/);
  const single = join(folder, "single.txt");
  writeFileSync(single, "only one\n");
  await expect(run("bad", { data: single })).rejects.toThrow("expected at least 2 texts");
  await expect(run("bad", { maxLength: 2 })).rejects.toThrow("maxLength: expected at least 3");
  expect(existsSync(join(folder, "bad"))).toBe(false);
});

const python = findPython("torch", "transformers");

test.skipIf(python === null)("transformers loads the result without missing keys, with the same loss", async () => {
  const saved = join(folder, "standard/model");
  const maskedLm = await loadMaskedLm(saved);
  const encoding = maskedLm.tokenizer.encode(["the film [MASK] joy"], 20);
  const query = { encoding, positions: [encoding.ids.indexOf(maskedLm.maskId)] };
  const compute = () => predictAtPositions(maskedLm, [query], 1) as never as [[{ id: number; probability: number }[]]];
  const [[expected]] = compute();
  const spread = measureSpread(() => compute()[0][0][0]!.probability);
  free(maskedLm.weights);
  const program = `
import json, sys, torch, transformers
model, info = transformers.AutoModelForMaskedLM.from_pretrained(sys.argv[1], output_loading_info=True)
ids = torch.tensor([json.loads(sys.argv[2])])
logits = model.eval()(input_ids=ids).logits[0, json.loads(sys.argv[2]).index(int(sys.argv[3]))]
best = logits.softmax(-1).max(-1)
print(json.dumps([type(model).__name__, list(info["missing_keys"]), list(info["unexpected_keys"]), best.indices.item(), best.values.item()]))
`;
  const ids = JSON.stringify([...encoding.ids]);
  const [name, missing, unexpected, id, probability] = runPython(
    python!,
    program,
    saved,
    ids,
    String(maskedLm.maskId),
  ) as [string, string[], string[], number, number];
  expect([name, missing, unexpected]).toEqual(["BertForMaskedLM", [], []]);
  expect(id).toBe(expected[0]!.id);
  expectClose(probability, expected[0]!.probability, { spread });
});
