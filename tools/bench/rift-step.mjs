#!/usr/bin/env node
// The cost of a RIFT step compared with the passes that it consists of, on the CPU: ten inner forward and backward passes to the
// input only, and the perturbed and the clean pass with gradients of the weights. The parts take turns; medians are compared. A
// MiniLM-size model with random weights; 45% of the words have eight substitutes each.
//   node tools/bench/rift-step.mjs [--rounds 5] [--batch-size 16] [--length 40] [--threads N]
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { createMethods } from "../../dist/methods/index.js";
import { cpuFloat32, forward } from "../../dist/models/index.js";
import { crossEntropy, evalMode, mapWeights, trainMode } from "../../dist/nn/index.js";
import { free, getNumThreads, grad, keep, randn, scope, setNumThreads, tensor } from "../../dist/tensor/index.js";
import { createRandomDataset, createRandomModel, createSteps, createSubstitutions, sizes } from "../gpu/workload.mjs";

const { values: options } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    "batch-size": { type: "string", default: "16" },
    length: { type: "string", default: "40" },
    threads: { type: "string" },
  },
});
const [rounds, batchSize, length] = [options.rounds, options["batch-size"], options.length].map(Number);
if (options.threads) setNumThreads(Number(options.threads));
process.env.TEMPER_CACHE = mkdtempSync(join(tmpdir(), "temper-bench-"));

const model = createRandomModel("minilm", "cpu", { tokenization: "word", head: "mlp" });
const { architecture, weights } = model;
const dataset = createRandomDataset(batchSize, () => length);
const substitutions = createSubstitutions((word) => word % 20 < 9);

async function createMethodSteps(...names) {
  const methods = createMethods(names.map((name) => ({ name, options: {} })));
  const { runStep } = await createSteps(model, dataset, batchSize, methods, {
    deviceConfig: cpuFloat32,
    substitutions,
  });
  return () => free(runStep().values);
}

const ids = dataset.items.flatMap((item) => [...item.encoding.ids]);
const input = keep({
  inputIds: tensor(Int32Array.from(ids), [batchSize, length]),
  tokenTypeIds: null,
  attentionBias: null,
});
const embeddingOutput = keep(randn([batchSize, length, sizes.minilm.hidden])).requiresGrad_();
const labels = keep(tensor(Int32Array.from(dataset.items, (item) => item.example.label)));
const parts = {
  /** Forward and backward to the input only. */
  inner: () =>
    scope(() => {
      const fixed = mapWeights(weights, (weight) => weight.detach());
      const perturbed = { embeddingOutput, tokenTypeIds: null, attentionBias: null };
      grad(crossEntropy(forward(architecture, fixed, perturbed, evalMode).logits, labels), [embeddingOutput]);
    }),
  /** Forward and backward to the weights. */
  outer: () =>
    scope(() => {
      const loss = crossEntropy(forward(architecture, weights, input, trainMode).logits, labels);
      grad(loss, [...weights.values()]);
    }),
  standard: await createMethodSteps(),
  ascc: await createMethodSteps("ascc"),
  rift: await createMethodSteps("ascc", "rift"),
};

const times = Object.fromEntries(Object.keys(parts).map((name) => [name, []]));
for (let round = -1; round < rounds; round++) {
  for (const [name, run] of Object.entries(parts)) {
    const start = performance.now();
    run();
    if (round >= 0) times[name].push(performance.now() - start);
  }
}
rmSync(process.env.TEMPER_CACHE, { recursive: true, force: true });
const medians = Object.fromEntries(
  Object.entries(times).map(([name, list]) => [name, list.toSorted((a, b) => a - b)[list.length >> 1]]),
);
const sum = 10 * medians.inner + 2 * medians.outer;
for (const [name, value] of Object.entries(medians))
  console.log(`${name.padEnd(9)} ${value.toFixed(0).padStart(6)} ms`);
console.log(
  `rift / (10 inner + 2 outer) = ${(medians.rift / sum).toFixed(3)}   ` +
    `(${batchSize} x ${length}, ${getNumThreads()} threads, ${rounds} rounds)`,
);
