#!/usr/bin/env node
// `make bench-gpu`: training steps and attack batches on the GPU, beside Hugging Face transformers and PyTorch in the same run.
//   node scripts/gpu/bench.mjs [--only standard,methods,equal] [--python python3] [--steps 20] [--size base]
import { execFileSync } from "node:child_process";
import { parseArgs } from "node:util";
import { createLayers } from "../../dist/methods/index.js";
import { parseMethod } from "../../dist/runs/config.js";
import { free, synchronize } from "../../dist/tensor/index.js";
import { native, nativeCuda } from "../../dist/tensor/native.js";
import { openSteps, randomDataset, randomModel, sizes, stepFlops } from "./workload.mjs";

const { values: options } = parseArgs({
  options: {
    only: { type: "string", default: "standard,methods,equal" },
    python: { type: "string", default: process.env.TEMPER_PYTHON ?? "python3" },
    steps: { type: "string", default: "20" },
    size: { type: "string", default: "base" },
    methods: { type: "string" },
  },
});
const wanted = new Set(options.only.split(","));
const steps = Number(options.steps);
const device = "cuda:0";

function hf(size, rows, length, padded, mode) {
  try {
    const line = execFileSync(
      options.python,
      [new URL("bench_hf.py", import.meta.url).pathname, size, rows, length, padded ? 1 : 0, mode, steps].map(String),
      { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] },
    );
    return JSON.parse(line.trim().split("\n").at(-1));
  } catch (error) {
    return {
      failed: String(error.stderr ?? error)
        .trim()
        .split("\n")
        .at(-1),
    };
  }
}

/** Medians of five timings of some updates; the device is waited for only at their ends. */
function median(step, warm = 6) {
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
const ragged = (length) => (i) => (i % 32 === 0 ? length : length - ((i * 7) % (length >> 1)));

async function timed(size, rows, length, lengths, method, { graph = true, compute = "bfloat16", batches = 4 } = {}) {
  const model = randomModel(size, device, "word");
  const dataset = randomDataset(rows * batches, lengths);
  const layers = createLayers(method.map(parseMethod));
  const steps = await openSteps(model, dataset, rows, layers, { device, compute, graph });
  nativeCuda().emptyCache();
  const ms = median(steps.step);
  const { peakBytes } = nativeCuda().deviceMemory(0);
  steps.close();
  free(model.weights);
  return { ms, tflops: stepFlops(sizes[size], rows, length) / ms / 1e9, peakGiB: peakBytes / 2 ** 30 };
}

const row = (...cells) => console.log(cells.map((cell) => (typeof cell === "number" ? cell.toFixed(2) : cell)).join("  "));
console.log(`libtorch ${native().versions().libtorch}, ${native().devices()[0]?.name}, ${new Date().toISOString().slice(0, 10)}`);
const peak = wanted.has("standard") ? hf("base", 1, 1, false, "peak") : null;
if (peak) row("bf16 product, TFLOP/s", peak.tflops ?? peak.failed);

if (wanted.has("standard")) {
  for (const [size, rows, length] of [
    ["minilm", 32, 64],
    ["base", 32, 128],
    ["large", 32, 128],
  ]) {
    for (const padded of [false, true]) {
      const ours = await timed(size, rows, length, (padded ? ragged : full)(length), []);
      const eager = hf(size, rows, length, padded, "eager");
      const compiled = hf(size, rows, length, padded, "compile");
      row(
        `standard ${size} ${rows}x${length} ${padded ? "padded" : "full"}`,
        "ms",
        ours.ms,
        "TFLOP/s",
        ours.tflops,
        "of peak",
        ours.tflops / (peak?.tflops ?? Number.NaN),
        "HF eager",
        eager.ms ?? eager.failed,
        "x",
        eager.ms / ours.ms,
        "compile",
        compiled.ms ?? compiled.failed,
        "x",
        compiled.ms / ours.ms,
        "GiB",
        ours.peakGiB,
        eager.peakGiB ?? 0,
      );
    }
  }
  const without = await timed(options.size, 32, 128, full(128), [], { graph: false });
  row(`standard ${options.size} without graph`, "ms", without.ms);
}

if (wanted.has("methods")) {
  const list = options.methods?.split(" ") ?? [
    "r-drop",
    "rose:order=second",
    "rose:order=first",
    "rose:order=ensemble",
    "rose:order=first,refresh=4",
    "child-tuning:variant=F",
    "freelb:steps=2",
    "smart",
    "ptwd",
    "mixout",
    "ascc",
    "ascc+rift",
  ];
  const base = await timed(options.size, 32, 128, ragged(128), []);
  row("method", "standard", "ms", base.ms);
  // SMART's perturbation is too small for bfloat16, so it is measured against standard in its own precision.
  nativeCuda().allowTf32(true);
  const tf32 = { compute: "float32" };
  const [plain, smart] = [
    await timed(options.size, 32, 128, ragged(128), [], tf32),
    await timed(options.size, 32, 128, ragged(128), ["smart"], tf32),
  ];
  row("method", "smart (tf32)", "ms", smart.ms, "x", smart.ms / plain.ms, "GiB", smart.peakGiB);
  for (const name of list) {
    try {
      const cost = await timed(options.size, 32, 128, ragged(128), name.split("+"));
      row("method", name, "ms", cost.ms, "x", cost.ms / base.ms, "GiB", cost.peakGiB);
    } catch (error) {
      row("method", name, "failed:", String(error.message).slice(0, 300));
    }
  }
}

if (wanted.has("equal")) {
  // The same seed and batches, recorded and operator by operator: the losses must agree.
  for (const method of [[], ["r-drop"], ["rose:order=first"]]) {
    const losses = [];
    for (const graph of [true, false]) {
      const model = randomModel("minilm", device);
      const run = await openSteps(model, randomDataset(128, ragged(64)), 32, createLayers(method.map(parseMethod)), {
        device,
        compute: "bfloat16",
        graph,
      });
      losses.push(Array.from({ length: 12 }, () => run.step().values.floats()[0]));
      run.close();
      free(model.weights);
    }
    const worst = Math.max(...losses[0].map((loss, i) => Math.abs(loss - losses[1][i])));
    row(
      "graph and eager losses",
      method[0] ?? "standard",
      losses[0]
        .slice(-3)
        .map((x) => x.toFixed(4))
        .join(","),
      losses[1]
        .slice(-3)
        .map((x) => x.toFixed(4))
        .join(","),
      `largest difference ${worst.toExponential(1)}`,
    );
  }
}
