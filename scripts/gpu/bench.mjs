#!/usr/bin/env node
// `make bench-gpu`: training steps and attack batches on the GPU, beside Hugging Face transformers and PyTorch in the same run.
//   node scripts/gpu/bench.mjs [--only standard,methods,queries,hours] [--python python3] [--steps 20] [--compile base]
import { spawnSync } from "node:child_process";
import { parseArgs } from "node:util";
import { createLayers } from "../../dist/methods/index.js";
import { classify, eagerClassifier, openClassifier } from "../../dist/models/index.js";
import { parseMethod } from "../../dist/runs/config.js";
import { allowTf32, free, synchronize } from "../../dist/tensor/index.js";
import { native, nativeCuda } from "../../dist/tensor/native.js";
import { openSteps, ragged, randomDataset, randomModel, sizes, stepFlops } from "./workload.mjs";

const { values: options } = parseArgs({
  options: {
    only: { type: "string", default: "standard,methods,queries,hours" },
    python: { type: "string", default: process.env.TEMPER_PYTHON ?? "python3" },
    steps: { type: "string", default: "20" },
    compile: { type: "string", default: "base" },
    methods: { type: "string" },
  },
});
const wanted = new Set(options.only.split(","));
const steps = Number(options.steps);
/** Methods named on the command line, one after the other: "r-drop ascc+rift". */
const chosen = options.methods?.split(" ");
const device = "cuda:0";
const row = (...cells) =>
  console.log(cells.map((cell) => (typeof cell === "number" ? cell.toFixed(2) : cell)).join("  "));

/** Asks the Python beside us; a SPEC that fails says so in its place. */
function hf(specs) {
  const run = spawnSync(options.python, [new URL("bench_hf.py", import.meta.url).pathname, String(steps), ...specs], {
    encoding: "utf8",
    maxBuffer: 1 << 26,
  });
  const lines = (run.stdout ?? "").split("\n").filter((line) => line.startsWith("{"));
  return new Map(lines.map((line) => JSON.parse(line)).map((found) => [found.spec, found]));
}

/** Medians of five timings of some updates; the device is waited for only at their ends. */
function median(step, warm) {
  for (let i = 0; i < warm; i++) free(step().values);
  synchronize();
  const times = Array.from({ length: 5 }, () => {
    const start = performance.now();
    for (let i = 0; i < steps; i++) free(step().values);
    synchronize();
    return (performance.now() - start) / steps;
  });
  return times.sort((a, b) => a - b)[2];
}

const full = (length) => () => length;

async function timed(size, rows, length, lengths, method, { graph = true, compute = "bfloat16" } = {}) {
  const model = randomModel(size, device, "word");
  const training = await openSteps(
    model,
    randomDataset(rows * 4, lengths),
    rows,
    createLayers(method.map(parseMethod)),
    {
      device,
      compute,
      graph,
    },
  );
  nativeCuda().emptyCache();
  const before = nativeCuda().deviceMemory(0).bytes;
  const ms = median(training.step, 10);
  const { cachedBytes } = nativeCuda().deviceMemory(0);
  training.close();
  free(model.weights);
  return { ms, tflops: stepFlops(sizes[size], rows, length) / ms / 1e9, gib: Math.max(before, cachedBytes) / 2 ** 30 };
}

console.log(
  `libtorch ${native().versions().libtorch}, ${native().devices()[0]?.name}, ${new Date().toISOString().slice(0, 10)}`,
);
const shapes = [
  ["minilm", 32, 64],
  ["base", 32, 128],
  ["large", 32, 128],
].flatMap((shape) => [
  [...shape, false],
  [...shape, true],
]);
const specOf = (mode, [size, rows, length, padded]) => `${mode}:${size}:${rows}:${length}:${padded ? 1 : 0}`;

if (wanted.has("standard")) {
  const ours = new Map();
  for (const shape of shapes) {
    const [size, rows, length, padded] = shape;
    ours.set(shape, await timed(size, rows, length, (padded ? ragged : full)(length), []));
  }
  const without = await timed("base", 32, 128, full(128), [], { graph: false });
  row("standard base 32x128 without graph", "ms", without.ms);
  const beside = hf(["peak:base:1:1:0", ...shapes.map((shape) => specOf("eager", shape))]);
  const peak = beside.get("peak:base:1:1:0")?.tflops ?? Number.NaN;
  row("bf16 product 8192^3", "TFLOP/s", peak);
  for (const shape of shapes) {
    const [size, rows, length, padded] = shape;
    const [mine, eager] = [ours.get(shape), beside.get(specOf("eager", shape)) ?? {}];
    row(
      `standard ${size} ${rows}x${length} ${padded ? "padded" : "full"}`,
      "ms",
      mine.ms,
      "TFLOP/s",
      mine.tflops,
      "of peak",
      mine.tflops / peak,
      "GiB",
      mine.gib,
      "| HF eager ms",
      eager.ms ?? eager.failed,
      "x",
      eager.ms / mine.ms,
      "GiB",
      eager.peakGiB ?? 0,
    );
  }
  const compiled = shapes.filter(([size]) => options.compile.split(",").includes(size));
  const found = hf(compiled.map((shape) => specOf("compile", shape)));
  for (const shape of compiled) {
    const { ms, failed } = found.get(specOf("compile", shape)) ?? {};
    row(
      `torch.compile ${shape[0]} ${shape[3] ? "padded" : "full"}`,
      "ms",
      ms ?? failed ?? "no answer",
      "x",
      ms / ours.get(shape).ms,
    );
  }
}

if (wanted.has("methods")) {
  const list = chosen ?? [
    "r-drop",
    "rose:variant=second",
    "rose:variant=first",
    "rose:variant=ensemble",
    "rose:variant=first,maskInterval=4",
    "child-tuning:variant=F",
    "freelb:steps=2",
    "ptwd",
    "mixout",
    "ascc",
    "ascc+rift",
  ];
  const base = await timed("base", 32, 128, ragged(128), []);
  row("method", "standard", "ms", base.ms);
  // SMART's perturbation is too small for bfloat16, so it is measured against standard in its own precision.
  allowTf32(true);
  const tf32 = { compute: "float32" };
  const [plain, smart] = [
    await timed("base", 32, 128, ragged(128), [], tf32),
    await timed("base", 32, 128, ragged(128), ["smart"], tf32),
  ];
  row("method", "smart (tf32)", "ms", smart.ms, "x", smart.ms / plain.ms, "GiB", smart.gib);
  for (const name of list) {
    try {
      const cost = await timed("base", 32, 128, ragged(128), name.split("+"));
      row("method", name, "ms", cost.ms, "x", cost.ms / base.ms, "GiB", cost.gib);
    } catch (error) {
      row("method", name, "failed:", String(error.message).slice(0, 300));
    }
  }
}

if (wanted.has("queries")) {
  const model = randomModel("base", device, "word");
  const texts = randomDataset(20_000, (_, rng) => 16 + rng.integer(49)).items.map((item) => item.encoded);
  for (const [name, open] of [
    ["recorded", openClassifier],
    ["operator by operator", eagerClassifier],
  ]) {
    const classifier = open(model, model.weights, { device, compute: "bfloat16" });
    await classify(classifier, texts);
    await classify(classifier, texts.slice(0, 4000));
    const start = performance.now();
    await classify(classifier, texts);
    row(`queries of at most 64 tokens, base, ${name}`, "a second", texts.length / ((performance.now() - start) / 1000));
    classifier.close();
  }
  free(model.weights);
  const single = hf(["queries:base:1:64:0"]).get("queries:base:1:64:0");
  row("HF, one at a time", "a second", single?.queriesPerSecond ?? single?.failed ?? "no answer");
}

if (wanted.has("hours")) {
  // RIFT's settings: IMDB 25,000 texts of 300 tokens in batches of 32, SNLI 549,367 of 80 in batches of 120, 20 epochs.
  for (const [task, rows, length, examples, paper] of [
    ["IMDB", 32, 300, 25_000, 10],
    ["SNLI", 120, 80, 549_367, 40],
  ]) {
    const { ms } = await timed("base", rows, length, ragged(length), ["ascc", "rift"]);
    const hours = (20 * Math.ceil(examples / rows) * ms) / 3.6e6;
    row(
      `RIFT on ${task}, ${rows} x ${length}`,
      "ms",
      ms,
      "GPU-hours for 20 epochs",
      hours,
      "the paper, on an A100",
      paper,
    );
  }
}
