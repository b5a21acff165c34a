import { describe, expect, it } from "vitest";
import { canPrepare, packedAttention, prepareWeight, scaledDotProductAttention } from "../../src/nn/index.js";
import { type CpuPrecision, getMaxInputLevel, preparedDense } from "../../src/nn/prepared-dense.js";
import { fromBytes, noGrad, operator, scope, type Tensor, tensor, zeros } from "../../src/tensor/index.js";
import { expectClose, unitRoundoff } from "../rounding.js";

type Operator = (...args: unknown[]) => Tensor;
const denseOp = operator<Operator>("temper::dense");
const denseNormOp = operator<Operator>("temper::dense_norm");
const feedForwardOp = operator<Operator>("temper::feed_forward");
const attentionOp = operator<Operator>("temper::cpu_attention");
const embeddingOp = operator<Operator>("temper::cpu_embedding_norm");

const starts = (...values: number[]): Tensor => tensor(Int32Array.from(values), [values.length]).to("int32");
const integers = (...values: number[]): Tensor => tensor(values).to("int64");
const precisions = (["float32", "bfloat16", "int8"] as const).filter((precision) => scope(() => canPrepare(precision)));
const run = (body: () => void): void => void scope(() => noGrad(body));

describe("dense layers refuse what does not fit", () => {
  const [width, columns] = [16, 40];

  it.each(precisions)("other sizes of rows, biases, residuals and norms than those of the weight (%s)", (precision) =>
    run(() => {
      const dtype = precision === "bfloat16" ? "bfloat16" : "float32";
      const { packed, scales = null, sums = null } = prepareWeight(zeros([columns, width]), precision);
      const weight = [packed, scales, sums, getMaxInputLevel()];
      const rows = zeros([3, width], { dtype });
      const residual = zeros([3, columns], { dtype });
      const vector = zeros([columns]);
      expect(denseOp(rows, ...weight, vector, false).shape).toEqual([3, columns]);
      expect(denseOp(zeros([0, width], { dtype }), ...weight, vector, false).shape).toEqual([0, columns]);
      expect(() => denseOp(zeros([3, width + 1], { dtype }), ...weight, null, false)).toThrow("rows of 16 numbers");
      expect(() => denseOp(zeros([3, 0], { dtype }), ...weight, null, false)).toThrow("at least one number");
      expect(() => denseOp(zeros([3, width], { dtype: "float64" }), ...weight, null, false)).toThrow("float32");
      expect(() => denseOp(rows, ...weight, zeros([columns + 1]), false)).toThrow("bias of 40 numbers");
      expect(() => denseOp(rows, ...weight, zeros([columns]).to("int64"), false)).toThrow("bias of 40 numbers");
      const norm = (added: Tensor, weightNorm: Tensor): Tensor =>
        denseNormOp(rows, ...weight, vector, added, weightNorm, vector, 1e-5);
      expect(norm(residual, vector).shape).toEqual([3, columns]);
      expect(() => norm(residual.narrow(0, 0, 2), vector)).toThrow("residual of the size");
      expect(() => norm(residual, zeros([1]))).toThrow("weight of 40 numbers");
    }),
  );

  it.runIf(precisions.includes("int8"))("another number of scales or sums than outputs", () =>
    run(() => {
      const { packed, scales, sums } = prepareWeight(zeros([columns, width]), "int8");
      const rows = zeros([40, width]);
      for (const count of [8, 41, 4096]) {
        const many = zeros([count]);
        expect(() => denseOp(rows, packed, many, many, 255, null, false)).toThrow(
          `expected ${columns} scales, received ${count}`,
        );
        expect(() => denseOp(rows, packed, scales, many, 255, null, false)).toThrow("sum of 40 numbers");
      }
      expect(() => denseOp(rows, packed, scales, null, 255, null, false)).toThrow("scales and sums, or neither");
      expect(() => denseOp(rows, packed, scales!.to("float64"), sums, 255, null, false)).toThrow("scales in float32");
      expect(() => denseOp(rows, packed, scales, sums, 256, null, false)).toThrow("levels of 8 bits");
    }),
  );

  it.each(precisions)("two layers that do not follow each other (%s)", (precision) =>
    run(() => {
      const dtype = precision === "bfloat16" ? "bfloat16" : "float32";
      const prepare = (outputs: number, inputs: number): unknown[] => {
        const { packed, scales = null, sums = null } = prepareWeight(zeros([outputs, inputs]), precision);
        return [packed, scales, sums, zeros([outputs])];
      };
      const forward = (first: unknown[], second: unknown[], size: number): Tensor =>
        feedForwardOp(
          zeros([2, width], { dtype }),
          ...[getMaxInputLevel(), ...first, ...second],
          ...[zeros([size]), zeros([size]), 1e-5],
        );
      expect(forward(prepare(columns, width), prepare(width, columns), width).shape).toEqual([2, width]);
      expect(() => forward(prepare(columns, width), prepare(width, columns + 8), width)).toThrow("rows of 40 numbers");
      expect(() => forward(prepare(columns, width), prepare(8, columns), 8)).toThrow("keep the size of a row");
    }),
  );

  it.runIf(precisions.includes("bfloat16"))("a weight of another dtype than the rows", () =>
    run(() => {
      const { packed } = prepareWeight(zeros([columns, width]), "bfloat16");
      expect(() => denseOp(zeros([2, width]), packed, null, null, 255, null, false)).toThrow(
        "expected a weight in Float",
      );
    }),
  );
});

describe("embeddings of packed texts refuse what does not fit", () => {
  const call = (changes: Record<string, unknown> = {}): Tensor => {
    const given: Record<string, unknown> = {
      words: zeros([5, 4]),
      positions: zeros([6, 4]),
      types: zeros([2, 4]),
      weight: zeros([4]),
      offset: zeros([4]),
      ids: integers(1, 2, 3, 0),
      typeIds: null,
      indices: integers(0, 1, 2),
      ...changes,
    };
    return embeddingOp(...Object.values(given), 1e-5, 0, 2);
  };

  it.each([
    ["tables without columns", () => ({ words: zeros([5, 0]), positions: zeros([6, 0]), types: zeros([2, 0]) })],
    ["tables of other widths", () => ({ positions: zeros([6, 5]) })],
    ["parameters of LayerNorm of another size", () => ({ weight: zeros([3]) })],
    ["a scalar as parameter", () => ({ offset: zeros([]) })],
    ["indices of another dtype", () => ({ indices: zeros([3]) })],
    ["ids of another dtype", () => ({ ids: zeros([4]) })],
    ["fewer types than tokens", () => ({ typeIds: integers(0, 1) })],
    ["ids that are not in the table", () => ({ ids: integers(1, 2, 5, 0) })],
    ["negative ids", () => ({ ids: integers(1, -1, 0, 0) })],
    ["tokens that are not in the batch", () => ({ indices: integers(4) })],
  ])("%s", (_name, change) =>
    run(() => {
      expect(call().shape).toEqual([3, 4]);
      expect(call({ indices: integers().reshape(0) }).shape).toEqual([0, 4]);
      expect(() => call(change())).toThrow(/expected/);
    }),
  );
});

describe("attention of packed texts refuses what does not fit", () => {
  it.each([
    ["heads without columns", () => [zeros([2, 1, 0]), zeros([2, 1, 0]), zeros([2, 1, 0])]],
    ["keys with other heads", () => [zeros([2, 2, 4]), zeros([2, 1, 4]), zeros([2, 1, 4])]],
    ["fewer values than keys", () => [zeros([2, 1, 4]), zeros([2, 1, 4]), zeros([1, 1, 4])]],
    ["two dimensions", () => [zeros([2, 4]), zeros([2, 4]), zeros([2, 4])]],
    ["columns that are not next to each other", () => Array(3).fill(zeros([4, 1, 2]).transpose(0, 2))],
  ])("%s", (_name, create) =>
    run(() => {
      expect(() => attentionOp(...create(), starts(0, 2), starts(0, 2))).toThrow("expected");
    }),
  );
});

describe("fused operators of inference refuse tensors that require gradients, instead of dropping them", () => {
  const message = "has no gradient, but an argument requires one";
  const cases: [string, (leaf: (...shape: number[]) => Tensor) => Tensor][] = [
    ["attention", (leaf) => attentionOp(leaf(2, 1, 4), zeros([2, 1, 4]), zeros([2, 1, 4]), starts(0, 2), starts(0, 2))],
    [
      "embeddings",
      (leaf) =>
        embeddingOp(
          ...[leaf(5, 4), zeros([6, 4]), zeros([2, 4]), zeros([4]), zeros([4])],
          ...[integers(1, 2), null, integers(0), 1e-5, 0, 2],
        ),
    ],
    ["a dense layer", (leaf) => preparedDense(prepareWeight(zeros([8, 8]), "float32"), leaf(2, 8), null)],
    ["its bias", (leaf) => preparedDense(prepareWeight(zeros([8, 8]), "float32"), zeros([2, 8]), leaf(8))],
  ];

  it.each(cases)("%s", (_name, call) =>
    scope(() => {
      const leaf = (...shape: number[]): Tensor => zeros(shape).requiresGrad_();
      expect(() => call(leaf)).toThrow(message);
      expect(noGrad(() => call(leaf)).requiresGrad).toBe(false);
    }),
  );
});

describe("attention of packed texts with extreme scores", () => {
  /** Texts of this many tokens, whose scores are all `score`. Values are 1. */
  const attend = (keys: number, score: number): number[] =>
    scope(() => {
      // A width of 4 halves the product.
      const [q, k] = [Math.sqrt(2 * Math.abs(score)), Math.sign(score) * Math.sqrt(2 * Math.abs(score))];
      const states = (value: number): Tensor => tensor([value, 0, 0, 0], [1, 1, 4]).expand(keys, 1, 4).contiguous();
      const packed = { starts: starts(0, keys), maxLength: keys };
      return [...packedAttention(states(q), states(k), zeros([keys, 1, 4]).add(1), packed, packed, 0).toFloat32Array()];
    });

  it.each([1, 5, 8, 31, 32, 33])("keys count and padding does not, however small the scores are (%d keys)", (keys) => {
    for (const score of [-1e31, -3e37, -1, 3e37])
      for (const value of attend(keys, score)) expectClose(value, 1, { terms: keys + 4 });
  });

  it.each([1, 5, 32, 33])("scores of -inf alone give NaN, as without packing (%d keys)", (keys) => {
    const big = 1e30; // its square is infinite
    scope(() => {
      const states = (value: number): Tensor => zeros([keys, 1, 4]).add(value);
      const packed = { starts: starts(0, keys), maxLength: keys };
      const found = packedAttention(states(big), states(-big), states(1), packed, packed, 0);
      const shape = [1, 1, keys, 4] as const;
      const plain = scaledDotProductAttention(
        ...([states(big), states(-big), states(1)].map((part) => part.reshape(...shape)) as [Tensor, Tensor, Tensor]),
        null,
        1e-12,
        { training: true },
      );
      expect([...plain.toFloat32Array()].every(Number.isNaN)).toBe(true);
      expect([...found.toFloat32Array()].every(Number.isNaN)).toBe(true);
    });
  });

  it("a score of -inf among others has no weight", () =>
    scope(() => {
      const query = zeros([3, 1, 4]).add(1e30);
      const key = tensor([0, 0, 0, 0, -1e30, -1e30, -1e30, -1e30, 0, 0, 0, 0], [3, 1, 4]);
      const value = tensor([1, 1, 1, 1, 9, 9, 9, 9, 3, 3, 3, 3], [3, 1, 4]);
      const packed = { starts: starts(0, 3), maxLength: 3 };
      for (const number of packedAttention(query, key, value, packed, packed, 0).toFloat32Array())
        expectClose(number, 2);
    }));
});

describe("numbers of dense layers", () => {
  /** GELU of single numbers, through a weight of 1. */
  const gelu = (values: number[], precision: CpuPrecision): number[] =>
    scope(() =>
      noGrad(() => {
        const weight = prepareWeight(zeros([1, 1]).add(1), precision);
        const input = tensor(values, [values.length, 1]).to(precision === "bfloat16" ? "bfloat16" : "float32");
        return [...preparedDense(weight, input, null, "gelu").to("float32").toFloat32Array()];
      }),
    );

  it.each(precisions)("GELU of large negative numbers is about 0, and NaN stays NaN (%s)", (precision) => {
    // The approximation of GELU is within 8e-5, and that of float32 within a few roundings of the number.
    const maxError = precision === "float32" ? 16 * unitRoundoff.float32 : 8e-5;
    for (const value of gelu([-4.3, -6, -30, -100, -1e4, -3e38], precision)) {
      expect(value).toBeLessThanOrEqual(0);
      expect(value).toBeGreaterThan(precision === "float32" ? -4e-5 : -maxError); // GELU(-4.3) is -3.7e-5
    }
    for (const value of gelu([-6, -30, -1e4, -3e38], precision)) expect(Math.abs(value)).toBeLessThan(maxError);
    expect(gelu([Number.NaN], precision)).toEqual([Number.NaN]);
    // 8 bits have no infinity: the row becomes NaN.
    if (precision !== "int8") expect(Math.abs(gelu([Number.NEGATIVE_INFINITY], precision)[0]!)).toBeLessThan(maxError);
  });

  it.each(precisions)("GELU of large numbers is the number (%s)", (precision) => {
    // 8 bits have 127 levels, and bfloat16 has about as many.
    for (const value of [6, 30, 1e4, 3e38])
      expectClose(gelu([value], precision), [value], {
        format: precision === "float32" ? "float32" : "bfloat16",
        terms: 2,
      });
  });

  it.runIf(precisions.includes("bfloat16")).each([0x7fffffff, 0xffffffff, 0x7f800001])(
    "NaN with any bits stays NaN in bfloat16 (%d)",
    (bits) =>
      run(() => {
        const bias = fromBytes(new Uint8Array(Uint32Array.of(bits).buffer), [1], "float32", "float32");
        const weight = prepareWeight(zeros([1, 1]).add(1), "bfloat16");
        const output = preparedDense(weight, zeros([2, 1], { dtype: "bfloat16" }), bias);
        expect([...output.to("float32").toFloat32Array()]).toEqual([Number.NaN, Number.NaN]);
      }),
  );
});
