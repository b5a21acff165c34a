#!/usr/bin/env node
// Each part of a training step alone on the GPU: bytes, operations, time and the fraction of the limit that it reaches.
//   node tools/gpu/roofline.mjs [--size base] [--batch-size 32] [--length 128]
// The limit is the larger of bytes / measured bandwidth and operations / measured matrix product. Prints a Markdown table.
import { parseArgs } from "node:util";
import { canAttendShort, computeClipFactor, globalNorm, shortAttention } from "../../dist/nn/index.js";
import {
  captureGraph,
  free,
  grad,
  keep,
  linear,
  loadKernels,
  noGrad,
  operator,
  randn,
  scope,
  seedGenerator,
  synchronize,
  tensor,
  useCapturableStream,
  zeros,
} from "../../dist/tensor/index.js";
import { LowPrecisionWeights } from "../../dist/train/mixed-precision.js";
import { createRandomDataset, createRandomModel, createSteps, paddedLengths, sizes } from "./workload.mjs";

const { values: options } = parseArgs({
  options: {
    size: { type: "string", default: "base" },
    "batch-size": { type: "string", default: "32" },
    length: { type: "string", default: "128" },
  },
});
const device = "cuda:0";
const dtype = "bfloat16";
const { layers, hidden, heads } = sizes[options.size];
const [batchSize, length] = [Number(options["batch-size"]), Number(options.length)];
const lengths = Array.from({ length: batchSize }, (_, i) => paddedLengths(length)(i));
const tokens = lengths.reduce((sum, value) => sum + value, 0);
useCapturableStream(device);
seedGenerator(device, 1);

/** The median time of one execution in milliseconds, without launches: the work is captured ten times in a graph. */
function measure(run, repeats = 10) {
  scope(run);
  synchronize();
  const { graph, result } = captureGraph([], () => {
    for (let i = 0; i < repeats; i++) scope(run);
    return null;
  });
  free(result);
  for (let i = 0; i < 3; i++) graph.replay();
  synchronize();
  const times = Array.from({ length: 5 }, () => {
    const start = performance.now();
    for (let i = 0; i < 5; i++) graph.replay();
    synchronize();
    return (performance.now() - start) / 5 / repeats;
  });
  graph.free();
  return times.sort((a, b) => a - b)[2];
}

const random = (...shape) => noGrad(() => keep(scope(() => randn(shape, { device }).to(dtype))));
const leaf = (...shape) => random(...shape).requiresGrad_();

/** Forward and backward pass of a function of leaves. */
function measureBoth(leaves, compute) {
  const output = scope(() => noGrad(() => keep(compute(...leaves))));
  const direction = random(...output.shape);
  free(output);
  const ms = measure(() => grad(compute(...leaves), leaves, { gradOutputs: [direction] }));
  free([direction, leaves]);
  return ms;
}

for (const [file, width] of [
  ["residual-norm", hidden],
  ["embedding-norm", hidden],
  ["activation", 4 * hidden],
])
  for (const name of [file, "column-sum"])
    if (!loadKernels(name, width, dtype, device)) throw new Error(`the kernels ${name} do not load`);
loadKernels("column-sum", 3 * hidden, dtype, device);

const square = [random(8192, 8192), random(8192, 8192)];
const peak = (2 * 8192 ** 3) / measure(() => square[0].matmul(square[1]), 3) / 1e9; // TFLOP/s
free(square);
const large = [zeros([2 ** 29], { device }), zeros([2 ** 29], { device })].map(keep);
const bandwidth = (2 ** 29 * 8) / measure(() => void large[0].copy_(large[1]), 3) / 1e9; // TB/s
free(large);

const rows = [];
function addPart(name, count, bytes, operations, compute) {
  try {
    const ms = compute() * count;
    const limit = Math.max(bytes / bandwidth, operations / peak) * (count / 1e9);
    rows.push({ name, count, bytes: bytes * count, operations: operations * count, ms, limit });
  } catch (error) {
    console.log(`${name} failed: ${String(error.message).slice(0, 300)}`);
  }
}

for (const [name, input, output] of [
  ["query, key, value", hidden, 3 * hidden],
  ["attention output", hidden, hidden],
  ["feed-forward up", hidden, 4 * hidden],
  ["feed-forward down", 4 * hidden, hidden],
]) {
  const bytes = 6 * (tokens * (input + output) + input * output);
  addPart(`matrix products: ${name}`, layers, bytes, 6 * tokens * input * output, () =>
    measureBoth([leaf(tokens, input), leaf(output, input)], (x, w) => linear(x, w, null)),
  );
}
const starts = keep(
  tensor(Int32Array.from([0, ...lengths.map((_, i) => lengths.slice(0, i + 1).reduce((a, b) => a + b))]), undefined, {
    device,
    dtype: "int32",
  }),
);
const pairs = lengths.reduce((sum, value) => sum + value * value, 0);
addPart("attention", layers, 2 * 12 * tokens * hidden, 14 * pairs * hidden, () => {
  const projections = leaf(tokens, 3 * hidden);
  if (!canAttendShort(projections, hidden / heads, length, 0.1)) throw new Error("there is no kernel for this length");
  const texts = { starts, length, outputs: 0, outputStarts: null };
  return measureBoth([projections], (qkv) => shortAttention(qkv, texts, heads, 0.1, { training: true }));
});
const seed = keep(zeros([1], { device, dtype: "int64" }));
const residualNorm = operator("temper::residual_norm");
addPart("bias + dropout + residual + LayerNorm", 2 * layers, 2 * 8 * tokens * hidden, 0, () =>
  measureBoth([leaf(tokens, hidden), leaf(hidden), leaf(tokens, hidden), leaf(hidden), leaf(hidden)], (x, b, r, w, o) =>
    residualNorm(x, b, r, w, o, seed, 0.1, 1e-12),
  ),
);
const biasGelu = operator("temper::bias_gelu");
addPart("bias + GELU", layers, 2 * 5 * tokens * 4 * hidden, 0, () =>
  measureBoth([leaf(tokens, 4 * hidden), leaf(4 * hidden)], (x, b) => biasGelu(x, b, false)),
);
const vocabulary = 30522;
const embeddingNorm = operator("temper::embedding_norm");
addPart("embeddings + LayerNorm + dropout", 1, 2 * (6 * tokens * hidden + vocabulary * hidden), 0, () => {
  const ids = keep(
    tensor(
      Int32Array.from({ length: batchSize * length }, (_, i) => (i * 7919) % vocabulary),
      undefined,
      { device },
    ),
  );
  const indices = keep(
    tensor(
      Int32Array.from(lengths.flatMap((size, row) => Array.from({ length: size }, (_, i) => row * length + i))),
      undefined,
      { device },
    ),
  );
  return measureBoth(
    [leaf(vocabulary, hidden), leaf(512, hidden), leaf(2, hidden), leaf(hidden), leaf(hidden)],
    (w, p, t, g, o) => embeddingNorm(w, p, t, g, o, ids, null, indices, null, seed, 0.1, 1e-12, 0, length),
  );
});

const model = createRandomModel(options.size, device, { tokenization: "word" });
const numParameters = [...model.weights.values()].reduce((sum, { numel }) => sum + numel, 0);
const deviceConfig = { device, computeDtype: dtype };
const dataset = createRandomDataset(batchSize * 4, paddedLengths(length));
const steps = await createSteps(model, dataset, batchSize, [], { deviceConfig });
addPart("norm of the gradients + AdamW", 1, 30 * numParameters, 0, () => {
  const { optimizer } = steps.training;
  const copies = new LowPrecisionWeights(model, dtype);
  const gradients = noGrad(() => new Map([...model.weights].map(([name, { shape }]) => [name, random(...shape)])));
  const ms = measure(() =>
    noGrad(() => {
      const factor = computeClipFactor(globalNorm([...gradients.values()]), 1);
      optimizer.updateAndCopy(gradients, factor, (parameter) => copies.getCopy(parameter)?.target ?? null);
    }),
  );
  free(gradients);
  copies.dispose();
  return ms;
});
for (let i = 0; i < 10; i++) free(steps.runStep().values);
synchronize();
const start = performance.now();
for (let i = 0; i < 50; i++) free(steps.runStep().values);
synchronize();
const stepMs = (performance.now() - start) / 50;
steps.close();

const sum = (key) => rows.reduce((total, row) => total + row[key], 0);
console.log(
  `${options.size} ${batchSize} x ${length}, ${tokens} tokens; ${peak.toFixed(0)} TFLOP/s, ${bandwidth.toFixed(2)} TB/s\n`,
);
console.log("| part | times | GB | GFLOP | ms | limit, ms | fraction of the limit |\n|---|---|---|---|---|---|---|");
for (const { name, count, bytes, operations, ms, limit } of rows)
  console.log(
    `| ${[name, count, (bytes / 1e9).toFixed(2), (operations / 1e9).toFixed(0), ms.toFixed(3), limit.toFixed(3)].join(" | ")} | ${((100 * limit) / ms).toFixed(0)}% |`,
  );
console.log(`| sum of the parts | | | | ${sum("ms").toFixed(3)} | ${sum("limit").toFixed(3)} | |`);
console.log(`| the step | | | | ${stepMs.toFixed(3)} | | ${((100 * sum("limit")) / stepMs).toFixed(0)}% |`);
