import { expect, test } from "vitest";
import { embeddingNorm } from "../../src/nn/fused-layers.js";
import { layerNormOp, noGrad, randn, scope, seedGenerator, tensor } from "../../src/tensor/index.js";
import { expectClose } from "../rounding.js";

const [width, length, firstPosition, epsilon] = [20, 3, 2, 1e-5];
const ids = [1, 4, 0, 2, 0, 0];
const typeIds = [0, 1, 0, 1, 0, 0];

test.each(["float32", "bfloat16"] as const)("embeds tokens without padding in one pass, in %s", (dtype) => {
  scope(() =>
    noGrad(() => {
      seedGenerator("cpu", 1);
      const create = (rows: number) => randn([rows, width]).to(dtype);
      const tables = { words: create(5), positions: create(firstPosition + length), types: create(2) };
      const norm = { weight: randn([width]).to(dtype), bias: randn([width]).to(dtype) };
      const indices = [0, 1, 3]; // two tokens of the first text, one of the second
      const options = { p: 0, epsilon, firstPosition };
      const toBatch = (values: readonly number[]) => tensor(Int32Array.from(values), [2, length]);
      for (const types of [typeIds, null]) {
        const tokens = {
          ids: toBatch(ids),
          typeIds: types && toBatch(types),
          indices: tensor(Int32Array.from(indices), [3]),
        };
        const found = embeddingNorm(tables, norm, tokens, options)!;
        for (const [i, index] of indices.entries()) {
          const rows = [
            tables.words.select(0, ids[index]!),
            tables.positions.select(0, firstPosition + (index % length)),
            tables.types.select(0, types?.[index] ?? 0),
          ].map((row) => row.to("float32"));
          const sum = rows[0]!.add(rows[1]!).add(rows[2]!);
          const expected = layerNormOp(sum, [width], norm.weight.to("float32"), norm.bias.to("float32"), epsilon);
          // Sums over the width, and one rounding to the dtype. Only one side is rounded to it.
          const terms = dtype === "float32" ? 2 * width : 0.6;
          expectClose(found.select(0, i).to("float32"), expected, { format: dtype, terms });
        }
      }
      const outside = { ids: toBatch([9, 0, 0, 0, 0, 0]), typeIds: null, indices: tensor(Int32Array.of(0), [1]) };
      expect(() => embeddingNorm(tables, norm, outside, options)).toThrow("expected an index from 0 to 4, received 9");
    }),
  );
});
