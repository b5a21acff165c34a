// Compares each kernel of native/gpu/kernels with the chain of libtorch's operators that it replaces: values and gradients.

import { forward } from "../../dist/models/index.js";
import { toModelInput } from "../../dist/models/model-input.js";
import { computeDropoutMask, drawDropoutSeed } from "../../dist/nn/dropout.js";
import { evalMode } from "../../dist/nn/index.js";
import {
  cat,
  embedding,
  free,
  gelu,
  grad,
  gradOrNull,
  layerNormOp,
  linear,
  loadKernels,
  noGrad,
  operator,
  randn,
  scope,
  seedGenerator,
  tensor,
} from "../../dist/tensor/index.js";
import { padBatch } from "../../dist/text/batch.js";
import { createRandomDataset, createRandomModel, paddedLengths } from "./workload.mjs";

const residualNorm = operator("temper::residual_norm");
const embeddingNorm = operator("temper::embedding_norm");
const biasGelu = operator("temper::bias_gelu");
const denseOp = operator("temper::linear");
const seededDropout = operator("temper::seeded_dropout");
const mixEmbeddings = operator("temper::mix_embeddings");
const epsilon = 1e-12;

/** The largest difference of a tensor from its reference, relative to the largest value of the reference. */
export function measureDifference(ours, reference) {
  const [a, b] = [ours, reference].map((tensor) => tensor.detach().to("float32"));
  return (
    a
      .sub(b)
      .abs()
      .amax([...a.shape.keys()])
      .item() /
    b
      .abs()
      .amax([...b.shape.keys()])
      .item()
  );
}

/** Runs both versions on the same leaves and returns the largest difference of output and gradients. */
function compare(leaves, ours, reference) {
  const results = [ours, reference].map((compute) => {
    const output = compute(...leaves);
    seedGenerator(output.device, 3);
    const direction = noGrad(() => randn(output.shape, { device: output.device }).to(output.dtype));
    return [output, ...grad(output.mul(direction).sum(), leaves)];
  });
  return Math.max(...results[0].map((tensor, i) => measureDifference(tensor, results[1][i])));
}

/** Compares embedding layers: packed or not, with and without token types and dropout. */
function compareEmbeddings(leaf, width, seed, dtype, device) {
  const [batch, length, firstPosition] = [7, 23, 2];
  const leaves = [leaf(500, width), leaf(40, width), leaf(2, width), leaf(width), leaf(width)];
  const integers = (count, compute) =>
    tensor(
      Int32Array.from({ length: count }, (_, i) => compute(i)),
      [count],
      { device },
    );
  const ids = integers(batch * length, (i) => (i * i * 7) % 500);
  const positionIds = integers(batch * length, (i) => firstPosition + (i % length));
  const someTypes = integers(batch * length, (i) => (i >> 2) % 2);
  const someIndices = integers(100, (i) => i + (i >> 2));
  const mask = computeDropoutMask([batch * length, width], seed, 0.1).to(dtype);
  // 23 tokens each have the same position.
  const fewPositions = integers(batch, (i) => (i * i) % 11);
  const repeated = integers(batch * length, (i) => firstPosition + (Math.floor(i / length) ** 2 % 11));
  return [
    ["embedding", null, null, null, null],
    ["embedding with dropout", null, null, null, seed],
    ["embedding with positions and dropout", null, null, fewPositions, seed],
    ["embedding packed, with types and dropout", someTypes, someIndices, null, seed],
  ].map(([name, typeIds, indices, positions, seed]) => [
    name,
    compare(
      leaves,
      (w, p, t, g, o) =>
        embeddingNorm(
          w,
          p,
          t,
          g,
          o,
          ids,
          typeIds,
          indices,
          positions,
          seed,
          seed ? 0.1 : 0,
          epsilon,
          firstPosition,
          length,
        ),
      (w, p, t, g, o) => {
        const types = typeIds ? embedding(t, typeIds) : t.select(0, 0);
        const sum = embedding(w, ids)
          .add(types)
          .add(embedding(p, positions ? repeated : positionIds));
        const output = layerNormOp(sum, [width], g, o, epsilon);
        const dropped = seed ? output.mul(mask) : output;
        return indices ? dropped.indexSelect(0, indices) : dropped;
      },
    ),
  ]);
}

/** Returns one line per kernel, dtype and width: name, difference, tolerance. */
export function checkKernels(device) {
  const lines = [];
  for (const dtype of ["float32", "bfloat16"])
    for (const [rows, width] of [
      [37, 128],
      [4096, 768],
      [300, 1024],
      [64, 384],
    ])
      scope(() => {
        seedGenerator(device, 1);
        const leaf = (...shape) => noGrad(() => randn(shape, { device }).to(dtype)).requiresGrad_();
        const leaves = { x: leaf(rows, width), b: leaf(width), r: leaf(rows, width), w: leaf(width), o: leaf(width) };
        const seed = drawDropoutSeed(device);
        const mask = computeDropoutMask([rows, width], seed, 0.1).to(dtype);
        const tolerance = dtype === "float32" ? 2e-5 : 3e-2;
        for (const file of [
          "residual-norm",
          "activation",
          "activation-tanh",
          "column-sum",
          "embedding-norm",
          "mixture",
        ])
          if (!loadKernels(file, width, dtype, device)) throw new Error(`the kernels ${file} do not load`);
        loadKernels("dropout", 0, dtype, device);
        const add = (name, difference) =>
          lines.push({ name: `${name} ${dtype} ${rows} x ${width}`, difference, tolerance });
        const { x, b, r, w, o } = leaves;
        add(
          "residual norm",
          compare(
            [x, b, r, w, o],
            (x, b, r, w, o) => residualNorm(x, b, r, w, o, seed, 0.1, epsilon),
            (x, b, r, w, o) => layerNormOp(x.add(b).mul(mask).add(r), [width], w, o, epsilon),
          ),
        );
        add(
          "norm without dropout",
          compare(
            [x, b, r, w, o],
            (x, b, r, w, o) => residualNorm(x, b, r, w, o, null, 0, epsilon),
            (x, b, r, w, o) => layerNormOp(x.add(b).add(r), [width], w, o, epsilon),
          ),
        );
        // The inner norm is the input and the residual of the outer one, so it has two gradients.
        const outer = leaf(width, width);
        add(
          "norm with two gradients",
          compare(
            [x, b, r, w, o, outer],
            (x, b, r, w, o, outer) => {
              const hidden = residualNorm(x, b, r, w, o, seed, 0.1, epsilon);
              return residualNorm(linear(hidden, outer, null), b, hidden, w, o, null, 0, epsilon);
            },
            (x, b, r, w, o, outer) => {
              const hidden = layerNormOp(x.add(b).mul(mask).add(r), [width], w, o, epsilon);
              return layerNormOp(linear(hidden, outer, b).add(hidden), [width], w, o, epsilon);
            },
          ),
        );
        for (const [name, difference] of compareEmbeddings(leaf, width, seed, dtype, device)) add(name, difference);
        for (const tanh of [false, true])
          add(
            tanh ? "bias + gelu (tanh)" : "bias + gelu",
            compare(
              [x, b],
              (x, b) => biasGelu(x, b, tanh),
              (x, b) => gelu(x.add(b), tanh ? "tanh" : "none"),
            ),
          );
        add(
          "dropout",
          compare(
            [x],
            (x) => seededDropout(x, seed, 0.1),
            (x) => x.mul(mask),
          ),
        );
        // Words 0 and 2 to 11 of 12 replace tokens; the rows of the text that they replace are not used.
        const [candidates, logits] = [leaf(12, 5, width), noGrad(() => randn([12, 5], { device })).requiresGrad_()];
        const index = tensor(
          Int32Array.from({ length: rows }, (_, i) => (i < 12 && i !== 1 ? rows + i : i)),
          [rows],
          { device },
        );
        add(
          "mixtures of candidates",
          compare(
            [x, candidates, logits],
            (x, candidates, logits) => mixEmbeddings(x, candidates, logits.softmax(-1), index),
            (x, candidates, logits) => {
              const mixtures = logits.softmax(-1).unsqueeze(1).matmul(candidates.to("float32")).squeeze(1);
              return cat([x.to("float32"), mixtures], 0)
                .indexSelect(0, index)
                .to(dtype);
            },
          ),
        );
        const weight = leaf(width, width);
        add(
          "linear",
          compare(
            [x, weight, b],
            (x, weight, b) => denseOp(x, weight, b),
            (x, weight, b) => linear(x, weight, b),
          ),
        );
      });
  return lines;
}

/** Packed texts must give the logits and gradients of padded ones, for short and long texts. */
export function checkPacking(device) {
  return [40, 128, 300].map((length) =>
    scope(() => {
      const model = createRandomModel("minilm", device);
      const encodings = createRandomDataset(16, paddedLengths(length)).items.map(({ encoding }) => encoding);
      const input = toModelInput(padBatch(encodings, 0, { multiple: 16 }), model.architecture.config, device, true);
      if (!input.packing) throw new Error("the batch was not packed");
      const weights = new Map(
        [...model.weights].map(([name, tensor]) => [name, tensor.detach().to("bfloat16").requiresGrad_()]),
      );
      const leaves = [...weights.values()].filter((tensor) => tensor.shape.length === 2).slice(0, 40);
      const run = (packing) => {
        const { logits } = forward(model.architecture, weights, { ...input, packing }, evalMode);
        return [logits, ...gradOrNull(logits.square().sum(), leaves)].filter((tensor) => tensor !== null);
      };
      const [packed, padded, again] = [run(input.packing), run(null), run(input.packing)];
      const difference = Math.max(...packed.map((tensor, i) => measureDifference(tensor, padded[i])));
      const repeated = Math.max(...packed.map((tensor, i) => measureDifference(tensor, again[i])));
      free(model.weights);
      return {
        name: `packed 16 x ${length}, again ${repeated.toExponential(1)}`,
        difference: repeated > 0 ? 1 : difference,
        tolerance: 0.1,
      };
    }),
  );
}
