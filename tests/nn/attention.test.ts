import { describe, expect, it } from "vitest";
import {
  evalMode,
  type ForwardMode,
  packedAttention,
  scaledDotProductAttention,
  trainMode,
} from "../../src/nn/index.js";
import { chunk, grad, randn, scope, seedGenerator, type Tensor, tensor, zeros } from "../../src/tensor/index.js";
import reference from "../fixtures/nn.json" with { type: "json" };
import { expectClose } from "../rounding.js";
import { checkGradients } from "./finite-difference.js";

/**
 * Dropout on a CPU takes the chain of plain operators. With a probability this small it drops no element and scales by
 * exactly 1, so the chain must equal the fused kernel.
 */
const forms: Record<"fused" | "unfused", [p: number, mode: ForwardMode]> = {
  fused: [0, evalMode],
  unfused: [1e-12, trainMode],
};
type Form = keyof typeof forms;

const { query, key, value, bias, output } = reference.attention;
const inputs = (): { query: Tensor; key: Tensor; value: Tensor; bias: Tensor } => ({
  query: tensor(query, [2, 2, 3, 4]).requiresGrad_(),
  key: tensor(key, [2, 2, 5, 4]).requiresGrad_(),
  value: tensor(value, [2, 2, 5, 4]).requiresGrad_(),
  bias: tensor(bias, [2, 1, 1, 5]),
});

/** The output and the gradients of query, key and value. */
function run(withBias: boolean, form: Form): number[][] {
  return scope(() => {
    const given = inputs();
    const seen = scaledDotProductAttention(
      given.query,
      given.key,
      given.value,
      withBias ? given.bias : null,
      ...forms[form],
    );
    const gradients = grad(seen.square().sum(), [given.query, given.key, given.value]);
    return [seen, ...gradients].map((tensor) => [...tensor.toFloat32Array()]);
  });
}

describe("scaledDotProductAttention", () => {
  it("matches PyTorch with padding, fused and unfused", () => {
    expectClose(run(true, "fused")[0] as number[], output);
    expectClose(run(true, "unfused")[0] as number[], output);
  });

  it.each([true, false])("has the same values and gradients fused and unfused (bias: %s)", (withBias) => {
    const fused = run(withBias, "fused");
    for (const [i, values] of run(withBias, "unfused").entries()) expectClose(values, fused[i] as number[]);
  });

  it.each(["fused", "unfused"] as const)("matches finite differences (%s)", (form) => {
    const shapes = [
      [1, 2, 2, 3],
      [1, 2, 4, 3],
      [1, 2, 4, 3],
    ];
    const padded = (): Tensor => tensor(new Float64Array([0, 0, 0, -30000]), [1, 1, 1, 4], { dtype: "float64" });
    checkGradients(shapes, (q, k, v) => scaledDotProductAttention(q, k, v, null, ...forms[form]));
    checkGradients(shapes, (q, k, v) => scaledDotProductAttention(q, k, v, padded(), ...forms[form]));
  });

  it("matches finite differences with dropout, and the seed determines the mask", () => {
    const shapes = [
      [1, 1, 2, 3],
      [1, 1, 4, 3],
      [1, 1, 4, 3],
    ];
    checkGradients(shapes, (q, k, v) => {
      seedGenerator("cpu", 11);
      return scaledDotProductAttention(q, k, v, null, 0.5, trainMode);
    });
    const dropped = (seed: number): number[] =>
      scope(() => {
        seedGenerator("cpu", seed);
        const given = inputs();
        return [
          ...scaledDotProductAttention(given.query, given.key, given.value, null, 0.5, trainMode).toFloat32Array(),
        ];
      });
    expect(dropped(1)).toEqual(dropped(1));
    expect(dropped(1)).not.toEqual(dropped(2));
  });

  it("gives padding a weight of exactly 0", () =>
    scope(() => {
      const given = inputs();
      const before = scaledDotProductAttention(
        given.query,
        given.key,
        given.value,
        given.bias,
        0,
        evalMode,
      ).toFloat32Array();
      const changedValue = given.value.detach().clone();
      changedValue.narrow(0, 1, 1).narrow(2, 3, 2).add_(1000);
      expect(
        scaledDotProductAttention(given.query, given.key, changedValue, given.bias, 0, evalMode).toFloat32Array(),
      ).toEqual(before);
      expect(() =>
        scaledDotProductAttention(given.query, zeros([2, 2, 5, 3]), given.value, null, 0, evalMode),
      ).toThrow();
    }));
});

describe("attention with dropout in bfloat16 on a CPU", () => {
  it("accepts a float32 bias", () => {
    const [wide, narrow] = (["float32", "bfloat16"] as const).map((dtype) =>
      scope(() => {
        const given = inputs();
        const [q, k, v] = [given.query, given.key, given.value].map((state) => state.detach().to(dtype)) as [
          Tensor,
          Tensor,
          Tensor,
        ];
        seedGenerator("cpu", 1);
        return [...scaledDotProductAttention(q, k, v, given.bias, 0.1, trainMode).to("float32").toFloat32Array()];
      }),
    );
    // Queries, keys, weights and values are rounded once each.
    expectClose(narrow!, wide!, { format: "bfloat16", terms: 4 });
  });
});

describe("attention within packed texts on a CPU", () => {
  // Widths and lengths below, at and above full vectors; a text without tokens at the end.
  const lengths = [1, 5, 16, 37, 3];
  const starts = lengths.map((_, i) => lengths.slice(0, i).reduce((sum, length) => sum + length, 0));
  const total = lengths.reduce((sum, length) => sum + length, 0);
  const ends = (values: readonly number[], end: number): Tensor =>
    tensor(Int32Array.of(...values, end, end), [values.length + 2]).to("int32");
  const heads = 3;

  it.each([
    [8, "float32"],
    [20, "float32"],
    [32, "bfloat16"],
  ] as const)("equals that of each text alone, width %d in %s", (width, dtype) => {
    scope(() => {
      seedGenerator("cpu", 3);
      // The projections are parts of one matrix, as in a model.
      const [query, key, value] = chunk(randn([total, 3 * heads * width]).to(dtype), 3, -1).map((part) =>
        part.reshape(total, heads, width),
      ) as [Tensor, Tensor, Tensor];
      const packed = { starts: ends(starts, total), maxLength: 37 };
      const found = packedAttention(query, key, value, packed, packed, 0);
      const firstTokens = tensor(Int32Array.from(starts), [starts.length]);
      const firsts = { starts: ends([...starts.keys()], starts.length), maxLength: 1 };
      const foundFirst = packedAttention(query.indexSelect(0, firstTokens), key, value, firsts, packed, 0);
      for (const [i, length] of lengths.entries()) {
        const [q, k, v] = [query, key, value].map((part) =>
          part.narrow(0, starts[i]!, length).to("float32").transpose(0, 1).unsqueeze(0),
        ) as [Tensor, Tensor, Tensor];
        const expected = scaledDotProductAttention(q, k, v, null, 0, evalMode).squeeze(0).transpose(0, 1);
        const compare = (some: Tensor, wanted: Tensor): void =>
          // Scores are sums over the width, and results are sums over the keys and rounded once.
          expectClose(some.to("float32").reshape(-1), wanted.reshape(-1), {
            format: dtype,
            terms: dtype === "float32" ? width + length : 1,
          });
        compare(found.narrow(0, starts[i]!, length), expected);
        compare(foundFirst.narrow(0, i, 1), expected.narrow(0, 0, 1));
      }
    });
  });

  it("is not finite if an input is not, and only in that text", () => {
    scope(() => {
      const [query, key] = [randn([8, 1, 8]), randn([8, 1, 8])];
      const value = randn([8, 1, 8]).mul(tensor([1, 1, 1, 1, 1, Number.NaN, 1, 1], [8, 1, 1]));
      const packed = { starts: ends([0, 4], 8), maxLength: 4 };
      const found = packedAttention(query, key, value, packed, packed, 0).toFloat32Array();
      expect(found.subarray(0, 32).every(Number.isFinite)).toBe(true);
      expect(found.subarray(32).some(Number.isFinite)).toBe(false);
    });
  });

  it.each([0x7fc00000, 0x7f8abcde, 0x7fffffff, 0xffffffff])(
    "a damaged key makes its text not finite, and not the next one (%d)",
    (bits) => {
      scope(() => {
        const keys = randn([8, 1, 8]).toFloat32Array();
        new Uint32Array(keys.buffer, keys.byteOffset)[8] = bits;
        const key = tensor(keys, [8, 1, 8]);
        const packed = { starts: ends([0, 6], 8), maxLength: 6 };
        const found = packedAttention(randn([8, 1, 8]), key, randn([8, 1, 8]), packed, packed, 0).toFloat32Array();
        expect(found.subarray(0, 48).some(Number.isFinite)).toBe(false);
        expect(found.subarray(48).every(Number.isFinite)).toBe(true);
      });
    },
  );

  it("rejects a text with queries but without keys", () => {
    scope(() => {
      const [queries, keys] = [
        { starts: ends([0, 4], 8), maxLength: 4 },
        { starts: ends([0, 0], 8), maxLength: 8 },
      ];
      const states = randn([8, 1, 8]);
      expect(() => packedAttention(states, states, states, queries, keys, 0)).toThrow("expected keys for every query");
    });
  });

  it("rejects starts that do not match the tokens", () => {
    scope(() => {
      const part = randn([8, 1, 8]);
      for (const values of [
        [0, 4, 9],
        [0, 5, 4, 8],
        [1, 8],
      ]) {
        const packed = { starts: tensor(Int32Array.from(values), [values.length]).to("int32"), maxLength: 8 };
        expect(() => packedAttention(part, part, part, packed, packed, 0)).toThrow("expected the starts of texts");
      }
    });
  });
});
