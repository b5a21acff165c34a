#!/usr/bin/env node
// Measures what the reduction of gradients costs in a captured step: one process with a process group of NCCL, compared
// with the same step without one. Needs an addon that was built with NCCL's headers.
//   node tools/gpu/distributed.mjs [--steps 20]
import { parseArgs } from "node:util";
import { createMethods } from "../../dist/methods/index.js";
import { free, ProcessGroup, synchronize } from "../../dist/tensor/index.js";
import { native } from "../../dist/tensor/native.js";
import { createRanks } from "../../dist/train/index.js";
import { createRandomDataset, createRandomModel, createSteps, paddedLengths } from "./workload.mjs";

const { values: options } = parseArgs({ options: { steps: { type: "string", default: "20" } } });
const steps = Number(options.steps);
const device = "cuda:0";
const group = ProcessGroup.open({ rank: 0, size: 1, host: "127.0.0.1", port: 29_517, timeout: 60 });
const ranks = createRanks(group);

/** Prepares captured steps, with or without the reduction. */
async function prepare(size, specs, withRanks) {
  const model = createRandomModel(size, device, { tokenization: "word" });
  const methods = createMethods(specs.map((name) => ({ name, options: {} })));
  const training = await createSteps(model, createRandomDataset(128, paddedLengths(128)), 32, methods, {
    deviceConfig: { device, computeDtype: "bfloat16" },
    ...(withRanks && { ranks }),
  });
  // The first step of each shape runs eagerly, the second one is captured.
  const losses = Array.from({ length: 10 }, () => {
    const { values } = training.runStep();
    const [loss] = values.toFloat32Array();
    free(values);
    return loss;
  });
  return { training, model, losses };
}

/** Milliseconds per step, by turns, so that the clock of the GPU affects both equally. */
function measure(trainings) {
  const times = trainings.map(() => []);
  for (let turn = 0; turn < 7; turn++)
    for (const [i, { training }] of trainings.entries()) {
      synchronize();
      const start = performance.now();
      for (let step = 0; step < steps; step++) free(training.runStep().values);
      synchronize();
      times[i].push((performance.now() - start) / steps);
    }
  return times.map((values) => values.sort((a, b) => a - b)[3]);
}

console.log(`libtorch ${native().versions().libtorch}, ${native().devices()[0]?.name}`);
for (const [size, specs] of [
  ["base", []],
  ["large", []],
  ["base", ["r-drop", "rose"]],
  ["base", ["ascc", "rift"]],
]) {
  const trainings = [await prepare(size, specs, false), await prepare(size, specs, true)];
  const [alone, reduced] = measure(trainings);
  const [first, second] = trainings.map(({ losses }) => losses);
  const difference = Math.max(...first.map((loss, i) => Math.abs(loss - second[i])));
  const cost = `${(100 * (reduced / alone - 1)).toFixed(2)}%`;
  console.log(
    `${size} ${specs.join("+") || "standard"}: ${alone.toFixed(3)} ms, with the reduction ${reduced.toFixed(3)} ms ` +
      `(${cost}); largest difference of 10 losses ${difference.toExponential(1)}`,
  );
  for (const { training, model } of trainings) {
    training.close();
    free(model.weights);
  }
}
group.close();
