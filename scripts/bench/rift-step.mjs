#!/usr/bin/env node
// What an update of RIFT costs beside the passes that it is made of, on the CPU: ten forward and backward passes without gradients
// of the weights, the perturbed pass and the clean one with them. The parts take turns; medians are compared. A model of MiniLM's
// size with random weights, 45 % of the words with eight substitutes each.
//   node scripts/bench/rift-step.mjs [--rounds 5] [--rows 16] [--length 40] [--threads N]
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { createLayers } from "../../dist/methods/index.js";
import { forward, modelParameters, parseConfig, toInput } from "../../dist/models/index.js";
import { crossEntropy, evaluating, mapWeights, training } from "../../dist/nn/index.js";
import {
  free,
  grad,
  keep,
  noGrad,
  Rng,
  randn,
  scope,
  seedGenerator,
  setThreads,
  tensor,
  threads,
  zeros,
} from "../../dist/tensor/index.js";
import { toHostBatch } from "../../dist/train/host-batch.js";
import { gradientsOf, onCpu, trainSettingsSchema } from "../../dist/train/index.js";
import { openTraining } from "../../dist/train/prepare-training.js";

const { values: options } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    rows: { type: "string", default: "16" },
    length: { type: "string", default: "40" },
    threads: { type: "string" },
  },
});
const [rounds, rows, length] = [options.rounds, options.rows, options.length].map(Number);
if (options.threads) setThreads(Number(options.threads));
process.env.TEMPER_CACHE = mkdtempSync(join(tmpdir(), "temper-bench-"));

const hidden = 384;
const config = parseConfig(
  {
    model_type: "bert",
    vocab_size: 30522,
    hidden_size: hidden,
    num_hidden_layers: 6,
    num_attention_heads: 12,
    intermediate_size: 1536,
  },
  "bench",
);
const shape = { config, head: "mlp", feature: "token", classes: 2 };
const weights = new Map();
seedGenerator("cpu", 1);
noGrad(() => {
  for (const [name, size] of modelParameters(shape)) {
    const value = scope(() => (name.endsWith("LayerNorm.weight") ? zeros(size).add(1) : randn(size).mul(0.02)));
    weights.set(name, keep(value).requireGrad());
  }
});

const rng = new Rng("bench");
const items = Array.from({ length: rows }, (_, i) => {
  const ids = Int32Array.from({ length }, () => 1000 + rng.integer(1000));
  const words = Array.from(ids.subarray(1, -1), String);
  const fields = new Uint8Array(words.length);
  const positions = Int32Array.from(words.keys(), (at) => at + 1);
  return {
    example: { id: String(i), texts: [words.join(" ")], label: i % 2 },
    encoded: { ids, types: new Int32Array(length), truncated: false, words, fields, positions },
  };
});
const substitutions = {
  name: "bench",
  hash: "bench",
  usesPartOfSpeech: false,
  of: (word) => (Number(word) < 1450 ? Array.from({ length: 8 }, (_, i) => String(Number(word) + 1000 * (i + 2))) : []),
};
const train = { items, lengths: new Int32Array(rows).fill(length), truncated: 0 };
const model = {
  shape,
  weights,
  tokenizer: { special: { pad: 0 }, hash: "bench", wordToken: Number },
  encoding: "word",
  maxLength: length,
  labels: ["a", "b"],
  reference: "bench",
  fresh: [],
};
const host = toHostBatch(train, Int32Array.from(items.keys()), 0, "cpu");

async function openUpdates(...names) {
  const layers = createLayers(names.map((name) => ({ name, options: {} })));
  const task = { name: "bench", labels: ["a", "b"], fields: ["text"], modifiableFields: [0] };
  const settings = trainSettingsSchema.parse({ batchSize: rows });
  const rest = {
    selection: null,
    seed: 1,
    placement: onCpu,
    folder: null,
    resume: false,
    substitutions: async () => substitutions,
  };
  const { runner } = await openTraining({ model, task, settings, layers, train, ...rest }, null);
  let number = 0;
  return () => free(runner.update(number++, [host]).values);
}

const input = keep(toInput(host.padded, "cpu"));
const embedded = keep(randn([rows, length, hidden])).requireGrad();
const labels = keep(tensor(Int32Array.from(items, (item) => item.example.label)));
const parts = {
  /** Forward and backward to the input alone. */
  inner: () =>
    scope(() => {
      const fixed = mapWeights(weights, (weight) => weight.detach());
      grad(crossEntropy(forward(shape, fixed, { embedded, bias: input.bias }, evaluating).logits, labels), [embedded]);
    }),
  /** Forward and backward to the weights. */
  outer: () =>
    scope(() => void gradientsOf(crossEntropy(forward(shape, weights, input, training).logits, labels), weights)),
  standard: await openUpdates(),
  ascc: await openUpdates("ascc"),
  rift: await openUpdates("ascc", "rift"),
};

const times = Object.fromEntries(Object.keys(parts).map((name) => [name, []]));
for (let round = -1; round < rounds; round++) {
  for (const [name, part] of Object.entries(parts)) {
    const started = performance.now();
    part();
    if (round >= 0) times[name].push(performance.now() - started);
  }
}
rmSync(process.env.TEMPER_CACHE, { recursive: true, force: true });
const median = Object.fromEntries(
  Object.entries(times).map(([name, list]) => [name, list.toSorted((a, b) => a - b)[list.length >> 1]]),
);
const sum = 10 * median.inner + 2 * median.outer;
for (const [name, value] of Object.entries(median)) console.log(`${name.padEnd(9)} ${value.toFixed(0).padStart(6)} ms`);
console.log(
  `rift / (10 inner + 2 outer) = ${(median.rift / sum).toFixed(3)}   (${rows} x ${length}, ${threads()} threads, ${rounds} rounds)`,
);
