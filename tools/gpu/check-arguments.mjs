// Checks that operators of the GPU refuse arguments that do not fit, accept zero rows, and read unaligned memory.
import { grad, loadKernels, noGrad, operator, randn, tensor, zeros } from "../../dist/tensor/index.js";

const residualNorm = operator("temper::residual_norm");
const embeddingNorm = operator("temper::embedding_norm");
const biasGelu = operator("temper::bias_gelu");
const linearOp = operator("temper::linear");
const seededDropout = operator("temper::seeded_dropout");
const mixEmbeddings = operator("temper::mix_embeddings");
const shortAttention = operator("temper::short_attention");
const packedAttention = operator("temper::packed_attention");
const adamw = operator("temper::adamw_");

/** Returns lines { name, passed, facts }. */
export function checkArguments(device) {
  const width = 128;
  // Kernels load into the context of the GPU, which the first tensor creates.
  zeros([1], { device });
  for (const dtype of ["float32", "bfloat16"]) {
    for (const file of ["residual-norm", "activation", "column-sum", "embedding-norm", "mixture"])
      loadKernels(file, width, dtype, device);
    loadKernels("dropout", 0, dtype, device);
  }
  loadKernels("attention-64", 32, "bfloat16", device);
  loadKernels("adamw", 0, "float32", device);
  const on = (shape, dtype = "float32") => zeros(shape, { device }).to(dtype);
  const integers = (values, dtype = "int64") => tensor(values).to(dtype).toDevice(device);
  const vector = () => on([width]);
  const seed = integers([1]);

  const norm = (changes = {}) => {
    const given = {
      x: on([3, width]),
      b: vector(),
      r: on([3, width]),
      w: vector(),
      o: vector(),
      seed,
      p: 0.1,
      ...changes,
    };
    return residualNorm(...Object.values(given), 1e-5);
  };
  const embed = (changes = {}) => {
    const given = {
      words: on([5, width]),
      positions: on([6, width]),
      types: on([2, width]),
      w: vector(),
      o: vector(),
      ids: integers([1, 2, 3, 0]),
      typeIds: null,
      indices: null,
      positionIds: null,
      seed: null,
      p: 0,
      epsilon: 1e-5,
      first: 0,
      length: 2,
      ...changes,
    };
    return embeddingNorm(...Object.values(given));
  };
  const attend = (changes = {}) => {
    const given = {
      projections: on([8, 192], "bfloat16"),
      starts: integers([0, 3, 8], "int32"),
      outputStarts: null,
      heads: 2,
      length: 8,
      outputs: 0,
      seed: null,
      p: 0,
      ...changes,
    };
    return shortAttention(...Object.values(given));
  };
  const update = (changes = {}) => {
    const given = {
      weights: [on([8])],
      gradients: [on([8])],
      first: [on([8])],
      second: [on([8])],
      copies: [],
      step: on([]),
      rate: on([]),
      ...changes,
    };
    return adamw(...Object.values(given), null, 0.9, 0.999, 0, 1e-8, false);
  };

  const refusals = {
    "a norm on the CPU": () => norm({ x: zeros([3, width]) }),
    "a norm with float16": () => norm({ x: on([3, width], "float16") }),
    "a norm with a short bias": () => norm({ b: on([4]) }),
    "a norm with another residual": () => norm({ r: on([2, width]) }),
    "a norm with a weight in another dtype": () => norm({ w: on([width], "bfloat16") }),
    "a norm with parameters on the CPU": () => norm({ o: zeros([width]) }),
    "a norm with a seed on the CPU": () => norm({ seed: tensor([1]).to("int64") }),
    "a norm with p = 1": () => norm({ p: 1 }),
    "GELU with another bias": () => biasGelu(on([3, width]), on([4]), false),
    "a product with another bias": () => linearOp(on([3, width]), on([8, width]), on([4])),
    "a product with another weight": () => linearOp(on([3, width]), on([8, 64]), on([8])),
    "dropout with a seed in float32": () => seededDropout(on([8]), on([1]), 0.5),
    "dropout on the CPU": () => seededDropout(zeros([8]), seed, 0.5),
    "embeddings of other widths": () => embed({ positions: on([6, 256]) }),
    "embeddings with ids on the CPU": () => embed({ ids: tensor([1, 2, 3, 0]).to("int64") }),
    "embeddings with few types": () => embed({ typeIds: integers([1]) }),
    "embeddings without a length": () => embed({ length: 0 }),
    "embeddings with no position ids": () => embed({ positionIds: integers([]) }),
    "embeddings with too many positions": () => embed({ first: 5 }),
    "mixtures with weights on the CPU": () =>
      mixEmbeddings(on([4, width]), on([2, 3, width]), zeros([2, 3]), integers([0, 5])),
    "mixtures with an index on the CPU": () =>
      mixEmbeddings(on([4, width]), on([2, 3, width]), on([2, 3]), tensor([0]).to("int64")),
    "attention without heads": () => attend({ heads: 0 }),
    "attention with heads that do not divide": () => attend({ heads: 5 }),
    "attention with more outputs than texts": () => attend({ outputs: 3 }),
    "attention with other output starts": () => attend({ outputs: 2, outputStarts: integers([0, 1], "int32") }),
    "attention with starts in int64": () => attend({ starts: integers([0, 8]) }),
    "flash attention on the CPU": () =>
      packedAttention(...Array(3).fill(zeros([4, 2, 32])), ...Array(2).fill(integers([0, 4], "int32")), 4, 4, 0),
    "AdamW with a gradient on the CPU": () => update({ gradients: [zeros([8])] }),
    "AdamW with a short gradient": () => update({ gradients: [on([4])] }),
    "AdamW with a copy on the CPU": () => update({ copies: [zeros([8]).to("bfloat16")] }),
    "AdamW with a step on the CPU": () => update({ step: zeros([]) }),
    "AdamW with few moments": () => update({ first: [] }),
  };
  const lines = Object.entries(refusals).map(([name, call]) => {
    try {
      call();
      return { name: `refuses ${name}`, passed: false, facts: "it was accepted" };
    } catch (error) {
      const message = String(error);
      return { name: `refuses ${name}`, passed: /expected/.test(message), facts: message.slice(0, 120) };
    }
  });

  const add = (name, body) => {
    try {
      lines.push({ name, passed: body(), facts: "" });
    } catch (error) {
      lines.push({ name, passed: false, facts: String(error).slice(0, 200) });
    }
  };
  const isZero = (gradients) => gradients.every((item) => item.to("float32").abs().sum().item() === 0);
  for (const dtype of ["float32", "bfloat16"]) {
    const leaf = (...shape) => on(shape, dtype).requiresGrad_();
    add(`zero rows: norm, ${dtype}`, () => {
      const leaves = [leaf(0, width), leaf(width), leaf(0, width), leaf(width), leaf(width)];
      const [x, b, r, w, o] = leaves;
      const output = norm({ x, b, r, w, o });
      return output.shape[0] === 0 && isZero(grad(output.sum(), leaves));
    });
    add(`zero rows: GELU, ${dtype}`, () => {
      const leaves = [leaf(0, width), leaf(width)];
      return isZero(grad(biasGelu(...leaves, false).sum(), leaves));
    });
    add(`zero rows: dropout, ${dtype}`, () => seededDropout(on([0], dtype), seed, 0.5).numel === 0);
    add(`zero rows: product, ${dtype}`, () => {
      const leaves = [leaf(0, width), leaf(width, width), leaf(width)];
      return isZero(grad(linearOp(...leaves).sum(), leaves));
    });
    add(`zero rows: embeddings, ${dtype}`, () => {
      const leaves = [leaf(5, width), leaf(6, width), leaf(2, width), leaf(width), leaf(width)];
      const [words, positions, types, w, o] = leaves;
      const output = embed({ words, positions, types, w, o, ids: integers([]) });
      return output.shape[0] === 0 && isZero(grad(output.sum(), leaves));
    });
    add(`zero rows: mixtures, ${dtype}`, () => {
      const output = mixEmbeddings(on([4, width], dtype), on([2, 3, width], dtype), on([2, 3]), integers([]));
      return output.shape[0] === 0;
    });
    add(`unaligned memory gives the same: ${dtype}`, () =>
      noGrad(() => {
        const flat = randn([1 + 4 * width], { device }).to(dtype);
        const x = flat.narrow(0, 1, 3 * width).reshape(3, width);
        const b = flat.narrow(0, 1, width);
        const [p, r] = [0, null];
        const found = norm({ x, b, r, w: b, o: b, p, seed: null });
        const expected = norm({ x: x.clone(), b: b.clone(), r, w: b.clone(), o: b.clone(), p, seed: null });
        const gelus = [biasGelu(x, b, false), biasGelu(x.clone(), b.clone(), false)];
        return isZero([found.sub(expected), gelus[0].sub(gelus[1])]);
      }),
    );
  }
  add("zero rows: short attention", () => {
    const projections = on([0, 192], "bfloat16").requiresGrad_();
    const output = attend({ projections, starts: null });
    return output.shape[0] === 0 && isZero(grad(output.sum(), [projections]));
  });
  add("zero rows: flash attention", () => {
    const part = on([0, 2, 32], "bfloat16");
    return packedAttention(part, part, part, ...Array(2).fill(integers([0], "int32")), 0, 0, 0).shape[0] === 0;
  });
  add("AdamW of nothing", () => {
    update({ weights: [], gradients: [], first: [], second: [] });
    return true;
  });
  return lines;
}
