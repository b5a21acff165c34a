#!/usr/bin/env node
// `make bench-gpu`: training steps and attack batches on the GPU, compared with Hugging Face transformers in the same run.
//   node tools/gpu/bench.mjs [--only standard,methods,queries] [--sizes minilm,base,large] [--python python3]
//     [--steps 20] [--compile minilm,base]
//     [--methods "r-drop ascc+rift"] [--method-size minilm]
import { spawnSync } from "node:child_process";
import { parseArgs } from "node:util";
import { parseSpec } from "../../dist/base/spec.js";
import { createMethods } from "../../dist/methods/index.js";
import { classify, createClassifier, createEagerClassifier } from "../../dist/models/index.js";
import { allowTf32, free, synchronize } from "../../dist/tensor/index.js";
import { native, nativeCuda } from "../../dist/tensor/native.js";
import { median } from "../bench/helpers.mjs";
import {
  countStepFlops,
  createRandomDataset,
  createRandomModel,
  createSteps,
  paddedLengths,
  sizes,
} from "./workload.mjs";

const { values: options } = parseArgs({
  options: {
    only: { type: "string", default: "standard,methods,queries" },
    python: { type: "string", default: process.env.TEMPER_PYTHON ?? "python3" },
    steps: { type: "string", default: "20" },
    sizes: { type: "string", default: "minilm,base,large" },
    compile: { type: "string", default: "minilm,base" },
    methods: { type: "string" },
    "method-size": { type: "string", default: "minilm" },
  },
});
const wanted = new Set(options.only.split(","));
const steps = Number(options.steps);
const device = "cuda:0";
const printRow = (...cells) =>
  console.log(cells.map((cell) => (typeof cell === "number" ? cell.toFixed(2) : cell)).join("  "));

/** Runs the SPECs with transformers. The result of a SPEC that fails contains its error. */
function runTransformers(specs) {
  const run = spawnSync(options.python, [new URL("bench_hf.py", import.meta.url).pathname, String(steps), ...specs], {
    encoding: "utf8",
    maxBuffer: 1 << 26,
  });
  const lines = (run.stdout ?? "").split("\n").filter((line) => line.startsWith("{"));
  return new Map(lines.map((line) => JSON.parse(line)).map((found) => [found.spec, found]));
}

/** The median of five timings of several steps each. The host waits for the device only at the end of a timing. */
function measureStep(runStep, warmupSteps) {
  for (let i = 0; i < warmupSteps; i++) free(runStep().values);
  synchronize();
  const times = Array.from({ length: 5 }, () => {
    const start = performance.now();
    for (let i = 0; i < steps; i++) free(runStep().values);
    synchronize();
    return (performance.now() - start) / steps;
  });
  return median(times);
}

async function measureMethod(
  size,
  batchSize,
  length,
  getLength,
  specs,
  { cudaGraphs = true, computeDtype = "bfloat16" } = {},
) {
  const model = createRandomModel(size, device, { tokenization: "word" });
  const methods = createMethods(specs.map((spec) => parseSpec(spec, "--methods")));
  const training = await createSteps(model, createRandomDataset(batchSize * 4, getLength), batchSize, methods, {
    deviceConfig: { device, computeDtype },
    cudaGraphs,
  });
  nativeCuda().emptyCache();
  nativeCuda().resetPeakMemory(0);
  const ms = measureStep(training.runStep, 10);
  // As PyTorch's max_memory_allocated.
  const { peakBytes, cachedBytes } = nativeCuda().deviceMemory(0);
  training.close();
  free(model.weights);
  const tflops = countStepFlops(sizes[size], batchSize, length) / ms / 1e9;
  const { examplesPerText } = training;
  return { ms, tflops, gib: peakBytes / 2 ** 30, reservedGib: cachedBytes / 2 ** 30, examplesPerText };
}

console.log(
  `libtorch ${native().versions().libtorch}, ${native().devices()[0]?.name}, ${new Date().toISOString().slice(0, 10)}`,
);
const workloads = [
  ["minilm", 32, 64],
  ["base", 32, 128],
  ["large", 32, 128],
]
  .filter(([size]) => options.sizes.split(",").includes(size))
  .flatMap((workload) => [false, true].map((padded) => [...workload, padded]));
const formatSpec = (mode, [size, batchSize, length, padded]) =>
  `${mode}:${size}:${batchSize}:${length}:${padded ? 1 : 0}`;

/** How PyTorch can execute steps. The strongest way counts. */
const peerWays = ["eager", "compile", "reduce-overhead", "graph", "graph-compile"];

/** Prints the results of peers, and the ratio to the strongest one. */
function printPeers(title, ours, peers, getCost, unit) {
  const found = peers.filter(([, result]) => Number.isFinite(result && getCost(result)));
  for (const [name, result] of peers)
    printRow(
      `  peer ${name}`,
      unit,
      (result && getCost(result)) ?? result?.failed ?? "no result",
      "GiB",
      result?.peakGiB ?? 0,
    );
  const isTime = unit === "ms";
  const [best] = found.sort((a, b) => (isTime ? 1 : -1) * (getCost(a[1]) - getCost(b[1])));
  if (!best) return printRow(title, "no peer ran");
  const ratio = isTime ? getCost(best[1]) / ours : ours / getCost(best[1]);
  printRow(title, "strongest peer", best[0], unit, getCost(best[1]), "x", ratio);
}

if (wanted.has("standard")) {
  const peak = runTransformers(["peak:base:1:1:0"]).get("peak:base:1:1:0")?.tflops ?? Number.NaN;
  printRow("bf16 matrix product 8192^3", "TFLOP/s", peak);
  for (const workload of workloads) {
    const [size, batchSize, length, padded] = workload;
    const getLength = padded ? paddedLengths(length) : () => length;
    const before = await measureMethod(size, batchSize, length, getLength, []);
    const ways = options.compile.split(",").includes(size) ? peerWays : ["eager", "graph"];
    const peers = runTransformers(ways.map((way) => formatSpec(way, workload)));
    const after = await measureMethod(size, batchSize, length, getLength, []);
    const mine = after.ms < before.ms ? after : before;
    const title = `standard ${size} ${batchSize}x${length} ${padded ? "padded" : "full"}`;
    printRow(
      ...[title, "ms", before.ms, "again", after.ms, "TFLOP/s", mine.tflops, "of peak", mine.tflops / peak],
      ...["GiB", mine.gib, "reserved", mine.reservedGib],
    );
    printPeers(
      title,
      (before.ms + after.ms) / 2,
      ways.map((way) => [way, peers.get(formatSpec(way, workload))]),
      ({ ms }) => ms,
      "ms",
    );
  }
  const without = await measureMethod("base", 32, 128, () => 128, [], { cudaGraphs: false });
  printRow("standard base 32x128 without CUDA graphs", "ms", without.ms);
}

if (wanted.has("methods")) {
  const oneStep = "ascc:innerSteps=1,innerLearningRate=10";
  const list = options.methods?.split(" ") ?? [
    "r-drop",
    "rose:variant=second",
    "rose:variant=first",
    "rose:variant=ensemble",
    "child-tuning:variant=F",
    "child-tuning:variant=D",
    "freelb:steps=2",
    "ptwd",
    "mixout",
    "lora",
    "lora+ascc",
    "ascc",
    "ascc+rift",
    oneStep,
    `${oneStep},interval=2`,
    `${oneStep}+rift`,
    "rift:alpha=20,tau=0.07,queueSize=1024",
    "discrete-adversarial",
    "hash-vote",
    "hash-vote:margin=4",
    "random-windows",
  ];
  const methodSize = options["method-size"];
  const length = methodSize === "minilm" ? 64 : 128;
  const measure = (specs, more) => measureMethod(methodSize, 32, length, paddedLengths(length), specs, more);
  const base = await measure([]);
  printRow("method", `standard, ${methodSize}, 32x${length} padded`, "ms", base.ms, "GiB", base.gib);
  // SMART's perturbation is too small for bfloat16, so it is compared with standard in its own precision.
  allowTf32(true);
  const tf32 = { computeDtype: "float32" };
  const [plain, smart] = [await measure([], tf32), await measure(["smart"], tf32)];
  printRow("method", "standard (tf32)", "ms", plain.ms, "GiB", plain.gib);
  printRow("method", "smart (tf32)", "ms", smart.ms, "x", smart.ms / plain.ms, "GiB", smart.gib);
  for (const name of list) {
    try {
      const { ms, gib, examplesPerText } = await measure(name.split("+"));
      // A method that makes several examples of a text has more steps per epoch.
      const epoch = examplesPerText === 1 ? [] : ["an epoch x", (examplesPerText * ms) / base.ms];
      printRow("method", name, "ms", ms, "x", ms / base.ms, "GiB", gib, ...epoch);
    } catch (error) {
      printRow("method", name, "failed:", String(error.message).slice(0, 300));
    }
  }
}

if (wanted.has("queries")) {
  const model = createRandomModel("base", device, { tokenization: "word" });
  const texts = createRandomDataset(20_000, (_, rng) => 16 + rng.integer(49)).items.map((item) => item.encoding);
  const numTokens = texts.reduce((sum, { ids }) => sum + ids.length, 0);
  let [textsPerSecond, tokensPerSecond] = [0, 0];
  for (const [name, create] of [
    ["eager", createEagerClassifier],
    ["pool", createClassifier],
  ]) {
    const classifier = create(model, model.weights, { device, computeDtype: "bfloat16" });
    // Captured graphs need two passes over the same batches.
    for (let i = 0; i < 2; i++) await classify(classifier, texts);
    const times = [];
    for (let i = 0; i < 5; i++) {
      const start = performance.now();
      await classify(classifier, texts);
      times.push((performance.now() - start) / 1000);
    }
    const seconds = median(times);
    [textsPerSecond, tokensPerSecond] = [texts.length / seconds, numTokens / seconds];
    printRow(`texts of 16 to 64 tokens, base, ${name}`, "texts/s", textsPerSecond, "tokens/s", tokensPerSecond);
    classifier.close();
  }
  free(model.weights);
  const shapes = ["512:40:0", "1024:40:0", "256:64:0", "256:64:1"];
  const specs = shapes.flatMap((shape) => ["batched", "compiled"].map((mode) => `${mode}:base:${shape}`));
  const found = runTransformers([...specs, "queries:base:1:64:0"]);
  const peers = specs.map((spec) => [spec, found.get(spec)]);
  printPeers("attack pool", tokensPerSecond, peers, (result) => result.tokensPerSecond, "tokens/s");
  printPeers("attack pool", textsPerSecond, peers.slice(0, 4), (result) => result.textsPerSecond, "texts/s");
  const single = found.get("queries:base:1:64:0");
  printRow("HF, one at a time", "texts/s", single?.queriesPerSecond ?? single?.failed ?? "no result");
}
