import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, expect, test, vi } from "vitest";
import { attack } from "../../../src/actions/attack/attack.js";
import { createTextAttacker } from "../../../src/actions/attack/attack-text.js";
import { evaluate } from "../../../src/actions/evaluate.js";
import { loadClassifier } from "../../../src/actions/predict/text-classifier.js";
import { verify } from "../../../src/actions/verify/verify.js";
import { readJournal } from "../../../src/attacks/journal.js";
import { attackNames, equipAttack, loadAttack } from "../../../src/attacks/load-attack.js";
import { writeSafetensors } from "../../../src/models/checkpoint/safetensors-writer.js";
import { parseModelConfig } from "../../../src/models/config.js";
import { getEncoderParameterShapes } from "../../../src/models/encoder.js";
import { getMaskedLmParameterShapes } from "../../../src/models/masked-lm.js";
import { serve } from "../../../src/serve/serve-model.js";
import { type TinyVictim, tinyVictim } from "../../attacks/tiny-victim.js";
import { invoke } from "../../cli/invoke.js";
import { createRandomTensors } from "../../cli/tiny-model.js";
import { chooseExtent } from "../../extent.js";
import { expectClose, measureProbabilitySpread } from "../../rounding.js";
import { temporaryFolder } from "../../temporary.js";
import { reviews } from "../../tiny-run.js";
import { words } from "../../words.js";
import { writeMaskedLm } from "../substitutions/masked-lm.js";

const folder = temporaryFolder();
let victim: TinyVictim;

beforeAll(async () => {
  await writeMaskedLm(join(folder, "masked-lm"));
  victim = await tinyVictim(join(folder, "subword"));
});
beforeAll(() => vi.stubEnv("TEMPER_CACHE", join(folder, "cache")));

/** Attacks over a substitution table have their own tests. */
const tableAttacks = ["pwws", "genetic", "greedy", "random", "exhaustive", "ascc"];

/** Small populations, so that every recipe takes little time. */
const specs = attackNames
  .filter((name) => !tableAttacks.includes(name))
  .map((name) => {
    const small = { population: 4, iterations: 2 };
    const options: Record<string, Record<string, unknown>> = {
      ...{ alzantot: small, "faster-alzantot": small, iga: small, pso: small, leap: small },
      "bad-characters": { population: 4, iterations: 2 },
      guard: { benignLabel: "positive", paddingWords: 20, maxQueries: 80 },
    };
    return { name, options: options[name] ?? {} };
  });

const encoder = () => ({
  sentenceEncoder: join(folder, "subword/tiny-bert"),
  maskedLm: join(folder, "masked-lm"),
});

const numExamples = chooseExtent(2, 6);
const createRequest = (attacks: typeof specs, out: string) =>
  ({
    ...{ model: victim.run, data: victim.data, attacks, numExamples, out, device: "cpu", threads: 1 },
    ...encoder(),
  }) as const;

/** The results without what depends on the last bits of a score, and the probabilities. */
async function readResults(out: string, name: string): Promise<{ results: object[]; probabilities: number[] }> {
  const results: object[] = [];
  const probabilities: number[] = [];
  for await (const { result } of readJournal(join(out, `${name}.jsonl`))) {
    const { before, after, ties: _, ...rest } = result;
    results.push(rest);
    probabilities.push(...before, ...after);
  }
  return { results, probabilities };
}

// tests/actions/attack/every-attack.test.ts has a victim with tokens of the kind word.
test("every recipe runs on a victim with subwords, verify replays it, and the same request gives the same results", async () => {
  const out = join(folder, "subword-out");
  const report = await attack(createRequest(specs, out));
  expect(Object.keys(report.attacks)).toEqual(specs.map(({ name }) => name));
  const journals = specs.map(({ name }) => join(out, `${name}.jsonl`));
  const verified = await verify({ journals, model: victim.run, device: "cpu", threads: 1 });
  expect(verified.map(({ lines }) => lines)).toEqual(specs.map(() => numExamples));
  // Without the cache, texts share batches with other texts.
  const again = await attack({ ...createRequest(specs, `${out}-again`), cache: false });
  expect(again.worstCase).toBe(report.worstCase);
  await using classifier = await loadClassifier(victim.run, { device: "cpu", threads: 1 });
  const texts = reviews(60, "recipes").map(({ text }) => text);
  const spread = await measureProbabilitySpread(classifier, texts);
  for (const { name } of specs) {
    const [first, second] = [await readResults(out, name), await readResults(`${out}-again`, name)];
    expect(second.results, name).toEqual(first.results);
    // Both are written with 6 decimals.
    expectClose(second.probabilities, first.probabilities, { spread, decimals: 6 - Math.log10(2) }, name);
  }
});

test("every recipe keeps its budget, and protected text stays", async () => {
  const out = join(folder, "limited");
  await attack({ ...createRequest(specs, out), queryBudget: 9, protect: ["film|plot"] });
  for (const { name } of specs)
    for await (const { result } of readJournal(join(out, `${name}.jsonl`))) {
      expect(result.queries, name).toBeLessThanOrEqual(9);
      for (const { from } of result.edits) expect(["film", "plot"], name).not.toContain(from);
    }
});

test("the cost of everything besides the victim is reported separately", async () => {
  const names = ["textfooler", "bert-attack", "hotflip", "pruthi"];
  const attacks = specs.filter(({ name }) => names.includes(name));
  const report = await attack(createRequest(attacks, join(folder, "cost")));
  const listKinds = (name: string): string[] => Object.keys(report.attacks[name]!.resources ?? {}).sort();
  // Sentences of fewer than 15 words are not encoded.
  expect(listKinds("textfooler")).toEqual(["tagger"]);
  expect(listKinds("bert-attack")).toEqual(["encoder", "mlm"]);
  expect(listKinds("hotflip")).toEqual(["gradient", "tagger"]);
  expect(listKinds("pruthi")).toEqual([]);
  const { encoder: cost } = report.attacks["bert-attack"]!.resources!;
  // The texts of all examples are encoded in common calls.
  expect(cost!.inputs).toBeGreaterThan(cost!.calls);
  expect(cost!.seconds).toBeGreaterThan(0);
});

test("a recipe without its resource, an unknown label or a bad expression is a clear error", async () => {
  const request = { model: victim.run, data: victim.data, numExamples: 2, out: join(folder, "errors"), device: "cpu" };
  const fail = (more: object) => expect(attack({ ...request, ...encoder(), ...more } as never)).rejects;
  await fail({ attacks: ["bae"], maskedLm: null }).toThrow(
    "attack bae needs a masked language model (--masked-lm). Pass --masked-lm MODEL",
  );
  await fail({ attacks: ["bae"], maskedLm: victim.run }).toThrow("--masked-lm: ");
  await fail({ attacks: ["textfoler"] }).toThrow('did you mean "textfooler"');
  await fail({ attacks: ["textfooler:neighbours=5"] }).toThrow('did you mean "neighbors"');
  await fail({ attacks: ["bae:variant=X"] }).toThrow("attack bae");
  await fail({ attacks: ["guard:benignLabel=ham"] }).toThrow("The labels are negative, positive");
  await fail({ attacks: ["pruthi"], protect: ["("] }).toThrow("--protect: expected a regular expression");
  await fail({ attacks: ["pruthi"], maskedLm: null, maxLikelihoodDrop: 1 }).toThrow(
    "--max-likelihood-drop needs a masked",
  );
  await fail({ attacks: ["pruthi"], protect: ["."] }).toThrow("no word of 2 examples has a substitute");
  await fail({ attacks: ["textfooler"], sentenceEncoder: join(folder, "none") }).toThrow("--sentence-encoder: ");
  const a2t = await loadAttack("a2t");
  expect(() => equipAttack(a2t, { labels: [] })).toThrow("needs neighbors");
});

test("texts that are empty, have one word, thousands of words or no Latin letters are attacked or left as they are", async () => {
  const texts = [
    "",
    "good",
    Array.from({ length: chooseExtent(1000, 10_000) }, () => "fine").join(" "),
    "\u0445\u043e\u0440\u043e\u0448\u0438\u0439 \u0444\u0438\u043b\u044c\u043c",
    "!!! ???",
  ];
  const data = join(folder, "odd.jsonl");
  writeFileSync(
    data,
    texts.map((text, i) => JSON.stringify({ text, label: i % 2 ? "positive" : "negative" })).join("\n"),
  );
  // These create the candidates of all words at once, which takes minutes for so many words.
  const slow = ["clare", "hotflip"];
  const attacks = specs.filter(({ name }) => !slow.includes(name));
  const out = join(folder, "odd");
  const options = { ...encoder(), queryBudget: 30, out, device: "cpu", threads: 1, skipBadRows: true } as const;
  const report = await attack({ model: victim.run, data, attacks, ...options });
  expect(report.examples).toBeGreaterThanOrEqual(4);
  await verify({ journals: attacks.map(({ name }) => join(out, `${name}.jsonl`)), model: victim.run, device: "cpu" });
  const changed = new Map<string, string[]>();
  for (const { name } of attacks)
    for await (const { result } of readJournal(join(out, `${name}.jsonl`))) {
      expect(result.queries, name).toBeLessThanOrEqual(30);
      // Without a word, there is nothing to change.
      if (["", "!!! ???"].includes(result.texts[0]!)) expect(result.edits, name).toEqual([]);
      else if (result.edits.length > 0) changed.set(name, [...(changed.get(name) ?? []), result.texts[0]!]);
    }
  // Characters change in any script.
  expect([...changed.values()].flat()).toContain(texts[3]);
});

test("a masked language model may have another tokenizer than the victim, but not than its own weights", async () => {
  const model = join(folder, "roberta");
  mkdirSync(model);
  const fixtures = fileURLToPath(new URL("../../fixtures", import.meta.url));
  copyFileSync(join(fixtures, "roberta-tiny/tokenizer.json"), join(model, "tokenizer.json"));
  const base = JSON.parse(readFileSync(join(fixtures, "families/roberta/config.json"), "utf8")) as object;
  const writeConfig = (size: number): object => {
    const config = { ...base, vocab_size: size };
    writeFileSync(join(model, "config.json"), JSON.stringify(config));
    return config;
  };
  const config = parseModelConfig(writeConfig(1004), "roberta");
  const shapes = [...getEncoderParameterShapes(config), ...getMaskedLmParameterShapes(config)];
  await writeSafetensors(join(model, "model.safetensors"), createRandomTensors(shapes, 2));
  const out = join(folder, "other-tokenizer");
  const attacks = ["bae:similarity=-1", "bert-attack:similarity=-1", "clare:similarity=-1"] as const;
  const request = {
    model: victim.run,
    data: victim.data,
    numExamples: 4,
    out,
    device: "cpu",
    queryBudget: 40,
  } as const;
  await attack({ ...request, attacks, ...encoder(), maskedLm: model });
  let edits = 0;
  for (const name of ["bae", "bert-attack", "clare"])
    for await (const { result } of readJournal(join(out, `${name}.jsonl`)))
      for (const { to } of result.edits) {
        edits++;
        // The words of a byte-level vocabulary are words of the text, without its marks.
        expect(to, name).toMatch(/^[\p{L}\p{N}'*@_-]*$/u);
      }
  expect(edits).toBeGreaterThan(0);
  writeConfig(51);
  await expect(attack({ ...request, attacks: ["bae"], ...encoder(), maskedLm: model })).rejects.toThrow(
    "the tokenizer has 1004 tokens, but vocab_size is 51",
  );
});

test("a dataset of the texts that fool the model", async () => {
  const dataset = join(folder, "adversarial.jsonl");
  const request = {
    model: victim.run,
    data: victim.data,
    attacks: ["greedy", "pruthi"],
    numExamples: 30,
    device: "cpu",
    substitutions: victim.substitutions,
    out: join(folder, "dataset"),
    saveDataset: dataset,
  } as const;
  const { attacks } = await attack(request);
  const successes = Object.values(attacks).map(({ attacked, successRate }) => attacked * successRate);
  const rows = readFileSync(dataset, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(rows).toHaveLength(successes.reduce((sum, count) => sum + Math.round(count), 0));
  expect(rows[0]).toEqual({
    text: expect.any(String),
    original_text: expect.any(String),
    label: expect.stringMatching(/positive|negative/),
    id: expect.any(String),
    method: "greedy",
  });
  // The model is wrong on every text of its dataset.
  const { accuracy } = await evaluate({
    model: victim.run,
    data: dataset,
    textColumn: ["text"],
    labelColumn: "label",
    device: "cpu",
  });
  expect(accuracy).toBe(0);
  const invalid = { ...request, out: join(folder, "dataset-2") };
  await expect(attack({ ...invalid, saveDataset: "x.csv" })).rejects.toThrow(
    "--save-dataset: expected a path that ends with .jsonl",
  );
});

test("an endpoint is attacked by recipes, too, but not by those that need gradients", async () => {
  const server = await serve({ model: victim.run, port: 0, device: "cpu" });
  try {
    const request = { model: server.url, data: victim.data, numExamples: 4, out: join(folder, "http") };
    const report = await attack({
      ...request,
      attacks: ["deepwordbug", "guard:benignLabel=positive,maxQueries=80"],
      ...encoder(),
    });
    expect(Object.keys(report.attacks)).toEqual(["deepwordbug", "guard"]);
    await expect(attack({ ...request, attacks: ["hotflip"] })).rejects.toThrow("attack hotflip needs gradients");
  } finally {
    await server.close();
  }
});

test("a single text is attacked with the steps of the search", async () => {
  const attacker = await createTextAttacker({
    model: victim.run,
    attacks: ["pruthi", "greedy"],
    device: "cpu",
    precision: "fp32",
  });
  try {
    const [pruthi, greedy] = await attacker.attack(["the film was good"], { label: "positive" });
    expect(greedy!.result.words).toEqual(["the", "film", "was", "good"]);
    const [original, ...searched] = pruthi!.steps;
    expect(original).toMatchObject({ texts: 1, best: ["the film was good"], tried: [] });
    expect(searched.length).toBeGreaterThan(0);
    const queried = pruthi!.steps.reduce((sum, { texts }) => sum + texts, 0);
    expect(queried).toBe(pruthi!.result.queries);
    const lowest = Math.min(...searched.map(({ probability }) => probability));
    expectClose(pruthi!.result.after[pruthi!.result.label]!, lowest, { terms: 1, decimals: 6 });
    await expect(attacker.attack(["x"], { label: "great" })).rejects.toThrow("The labels are negative, positive");
    expect((await attacker.attack([""]))[0]!.result.edits).toEqual([]);
  } finally {
    attacker.close();
  }
  const { code, stdout } = await invoke(
    words`attack ${victim.run} --attack pruthi --input ${"the film was good"} --device cpu`,
  );
  expect(code).toBe(0);
  expect(stdout).toMatch(/step 1 .*texts; best/);
});

test("temper attacks lists every attack, and the parts of one", async () => {
  const { stdout } = await invoke(["attacks"]);
  for (const name of attackNames) expect(stdout).toContain(name);
  const { stdout: one } = await invoke(["attacks", "textfooler", "--json"]);
  expect(JSON.parse(one)).toMatchObject({ name: "textfooler", search: "greedy, words ranked by delete" });
  expect(await invoke(["attacks", "textfoler"])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("textfooler"),
  });
});
