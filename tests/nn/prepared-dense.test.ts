import { describe, expect, test } from "vitest";
import { canPrepare, prepareWeight } from "../../src/nn/index.js";
import {
  getMaxInputLevel,
  preparedDense,
  preparedDenseNorm,
  preparedFeedForward,
} from "../../src/nn/prepared-dense.js";
import {
  gelu,
  getNumThreads,
  layerNormOp,
  linear,
  noGrad,
  randn,
  scope,
  seedGenerator,
  type Tensor,
  tensor,
} from "../../src/tensor/index.js";
import { getLargest, unitRoundoff } from "../rounding.js";

/** Runs a body without gradients and with the same random numbers in each test. */
function run(body: () => void): void {
  scope(() =>
    noGrad(() => {
      seedGenerator("cpu", 1);
      body();
    }),
  );
}

const getMax = (values: Tensor): number => getLargest(values.to("float32").reshape(-1).toFloat32Array());
const maxDifference = (a: Tensor, b: Tensor): number => getMax(a.to("float32").sub(b.to("float32")));

/**
 * How far two ways to compute a product, or a product and what follows, may differ: by a rounding
 * per term of a sum in float32, and by a few roundings of the results in their own dtype.
 */
function computeMaxRounding(width: number, terms: number, results: number, dtype: "float32" | "bfloat16"): number {
  return 2 * width * unitRoundoff.float32 * terms + 4 * unitRoundoff[dtype] * results;
}

/** The largest sum of absolute terms of a product. */
const getTerms = (input: Tensor, weight: Tensor, bias: Tensor): number =>
  getMax(linear(input.to("float32").abs(), weight.abs(), bias.to("float32").abs()));

/** Rounds the rows to levels between their limits, or to levels of both signs. */
function roundRows(rows: Tensor, levels: number, isSymmetric: boolean): Tensor {
  const [count, width] = rows.shape as [number, number];
  const values = rows.toFloat32Array();
  for (let i = 0; i < count; i++) {
    const row = values.subarray(i * width, (i + 1) * width);
    const [low, high] = [Math.min(0, ...row), Math.max(0, ...row)];
    const scale = isSymmetric ? Math.max(-low, high) / levels : (high - low) / levels;
    for (const [k, value] of row.entries()) row[k] = scale === 0 ? 0 : Math.round(value / scale) * scale;
  }
  return tensor(values, [count, width]);
}

// Rows and columns with and without a rest after full blocks and vectors.
const shapes = [
  { rows: 64, width: 64, columns: 64 },
  { rows: 1, width: 128, columns: 33 },
  { rows: 70, width: 192, columns: 200 },
];

describe.each([
  { precision: "float32", dtype: "float32" },
  { precision: "bfloat16", dtype: "bfloat16" },
  { precision: "int8", dtype: "float32" },
  { precision: "int8", dtype: "bfloat16" },
] as const)("$precision, numbers in $dtype", ({ precision, dtype }) => {
  const isSupported = canPrepare(precision);
  test.runIf(isSupported).each(shapes)("x Wᵀ + b, $rows x $width x $columns", ({ rows, width, columns }) => {
    run(() => {
      const [input, weight] = [randn([rows, width]), randn([columns, width]).mul(1 / Math.sqrt(width))];
      const bias = randn([columns]);
      const found = preparedDense(prepareWeight(weight, precision), input.to(dtype), bias.to(dtype));
      expect(found.shape).toEqual([rows, columns]);
      const isRounded = precision === "int8";
      const expected = isRounded
        ? linear(
            roundRows(input.to(dtype).to("float32"), getMaxInputLevel(), false),
            roundRows(weight, 127, true),
            bias,
          )
        : linear(input.to(dtype).to("float32"), weight.to(dtype).to("float32"), bias.to(dtype).to("float32"));
      // In 8 bits, a value in the middle of two levels may be rounded to either.
      const step = isRounded ? (2 * getMax(input) * getMax(weight)) / getMaxInputLevel() : 0;
      const allowed = computeMaxRounding(width, getTerms(input, weight, bias), getMax(expected), dtype);
      expect(maxDifference(found, expected)).toBeLessThan(2 * step + allowed);
      if (precision !== "float32") expect(maxDifference(found, linear(input, weight, bias))).toBeGreaterThan(1e-4);
    });
  });

  test.runIf(isSupported).each(shapes)("GELU and LayerNorm in the same pass, $rows x $width x $columns", (shape) => {
    const { rows, width, columns } = shape;
    run(() => {
      const [input, bias] = [randn([rows, width]).to(dtype), randn([columns]).to(dtype)];
      const exact = randn([columns, width]).mul(1 / Math.sqrt(width));
      const weight = prepareWeight(exact, precision);
      const product = preparedDense(weight, input, bias);
      const terms = getTerms(input, exact, bias);
      // In 8 bits, GELU is approximated with an error of up to 8e-5.
      const approximation = precision === "int8" ? 8e-5 : 0;
      expect(maxDifference(preparedDense(weight, input, bias, "gelu"), gelu(product, "none"))).toBeLessThan(
        computeMaxRounding(width, terms, getMax(product), dtype) + approximation,
      );
      const residual = randn([rows, columns]).to(dtype);
      const norm = { weight: randn([columns]).to(dtype), bias: randn([columns]).to(dtype), epsilon: 1e-5 };
      const found = preparedDenseNorm(weight, input, bias, residual, norm);
      const sum = product.add(residual);
      const expected = layerNormOp(sum, [columns], norm.weight, norm.bias, norm.epsilon);
      // Rows have a standard deviation above 1, so the normalization makes errors no larger.
      const scale = getMax(norm.weight);
      expect(maxDifference(found, expected)).toBeLessThan(
        computeMaxRounding(width, scale * terms, Math.max(scale * getMax(sum), getMax(expected)), dtype),
      );
    });
  });

  // With several chunks of rows and a rest.
  test.runIf(isSupported)("a feed-forward sublayer is its two dense layers", () => {
    run(() => {
      const [rows, width, inner] = [256 * getNumThreads() * 2 + 5, 64, 96];
      const input = randn([rows, width]).to(dtype);
      const create = (outputs: number, inputs: number) => ({
        ...prepareWeight(randn([outputs, inputs]).mul(1 / Math.sqrt(inputs)), precision),
        bias: randn([outputs]).to(dtype),
      });
      const [first, second] = [create(inner, width), create(width, inner)];
      const norm = { weight: randn([width]).to(dtype), bias: randn([width]).to(dtype), epsilon: 1e-5 };
      const found = preparedFeedForward(input, first, second, norm);
      const hidden = preparedDense(first, input, first.bias, "gelu");
      const expected = preparedDenseNorm(second, hidden, second.bias, input, norm);
      const sizes = getMax(norm.weight) * Math.max(getMax(hidden), getMax(input));
      // In 8 bits, a hidden number in the middle of two levels may be rounded to either.
      const step = precision === "int8" ? (getMax(hidden) / getMaxInputLevel()) * getMax(norm.weight) : 0;
      const allowed = computeMaxRounding(inner, Math.sqrt(inner) * sizes, sizes, dtype) + step;
      expect(maxDifference(found, expected)).toBeLessThan(allowed);
    });
  });

  test.runIf(isSupported)("rows of any size, alone as in a batch", () => {
    run(() => {
      const sizes = tensor([1, 1e-4, 0, 1e3, 1e-38], [5, 1]);
      const input = randn([5, 64]).mul(sizes).to(dtype);
      const weight = prepareWeight(randn([96, 64]), precision);
      const all = preparedDense(weight, input, null);
      for (let i = 0; i < 5; i++) {
        const alone = preparedDense(weight, input.narrow(0, i, 1).mul(1), null);
        const size = getMax(all.narrow(0, i, 1));
        const allowed = computeMaxRounding(64, size, dtype === "bfloat16" ? size : 0, dtype);
        expect(maxDifference(alone, all.narrow(0, i, 1))).toBeLessThanOrEqual(allowed);
      }
    });
  });

  test.runIf(isSupported)("numbers that are not finite give numbers that are not finite", () => {
    run(() => {
      const weight = prepareWeight(randn([64, 64]), precision);
      const input = randn([3, 64])
        .mul(tensor([1, Number.NaN, Number.POSITIVE_INFINITY], [3, 1]))
        .to(dtype);
      const found = preparedDense(weight, input, null).to("float32").toFloat32Array();
      expect(found.subarray(0, 64).every(Number.isFinite)).toBe(true);
      expect(found.subarray(64).some(Number.isFinite)).toBe(false);
    });
  });
});
