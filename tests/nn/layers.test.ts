import { describe, expect, it } from "vitest";
import {
  type Activation,
  activate,
  dense,
  dropout,
  embed,
  evalMode,
  layerNorm,
  trainMode,
} from "../../src/nn/index.js";
import {
  dropoutMask,
  getNumThreads,
  ones,
  scope,
  seedGenerator,
  setNumThreads,
  type Tensor,
  tensor,
} from "../../src/tensor/index.js";
import reference from "../fixtures/nn.json" with { type: "json" };
import { expectClose } from "../rounding.js";
import { checkGradients } from "./finite-difference.js";

const layer = (weight: Tensor, bias: Tensor): Map<string, Tensor> =>
  new Map([
    ["x.weight", weight],
    ["x.bias", bias],
  ]);

describe("gradients match finite differences", () => {
  it("dense, for a matrix and a batch of matrices", () => {
    checkGradients([[4, 3], [2, 3], [2]], (input, weight, bias) => dense(layer(weight, bias), "x", input));
    checkGradients([[2, 2, 3], [2, 3], [2]], (input, weight, bias) => dense(layer(weight, bias), "x", input));
  });

  it("embed, with rows used twice and not at all", () => {
    const ids = (): Tensor => tensor(new Int32Array([1, 3, 1, 0]), [2, 2]);
    checkGradients([[5, 3]], (weight) => embed(new Map([["x.weight", weight]]), "x", ids()));
  });

  it("layerNorm", () => {
    checkGradients([[2, 3, 5], [5], [5]], (input, weight, bias) => layerNorm(layer(weight, bias), "x", input, 1e-5));
  });

  it("dropout, with the same mask each time", () => {
    checkGradients([[4, 5]], (input) => {
      seedGenerator("cpu", 3);
      return dropout(input, 0.4, trainMode);
    });
  });

  it.each(["gelu", "gelu_new", "relu", "silu", "tanh"] satisfies Activation[])("%s", (activation) => {
    checkGradients([[3, 4]], (input) => activate(input, activation));
  });
});

describe("values", () => {
  it("of activations match PyTorch", () => {
    const { x, ...expected } = reference.layers;
    for (const [name, values] of Object.entries(expected)) {
      const output = scope(() => activate(tensor(x), name as Activation).toFloat32Array());
      // The fixture has six or more digits, and an activation is a few operations on x.
      for (const [i, value] of values.entries())
        expectClose(output[i]!, value, { terms: 8, scale: Math.max(1, Math.abs(x[i]!)) });
    }
  });

  it("dropout returns its input in eval mode and with p = 0", () =>
    scope(() => {
      const input = ones([10]);
      expect(dropout(input, 0.5, evalMode)).toBe(input);
      expect(dropout(input, 0, trainMode)).toBe(input);
    }));

  it.each([0.1, 0.5, 0.9])("dropout zeroes elements with probability %s and scales the rest", (p) => {
    seedGenerator("cpu", 5);
    const count = 200_001;
    const output = scope(() => dropout(ones([count]), p, trainMode).toFloat32Array());
    const zeros = output.filter((value) => value === 0).length;
    expect(Math.abs(zeros / count - p)).toBeLessThan(4 * Math.sqrt((p * (1 - p)) / count));
    const kept = output.filter((value) => value !== 0);
    expectClose(kept, kept.fill(1 / (1 - p)));
    // Neighbors are independent, within the two elements of one random word and across words.
    for (const distance of [1, 2, 3]) {
      const both = output.filter((value, i) => value === 0 && output[i + distance] === 0).length;
      expect(Math.abs(both / count - p ** 2)).toBeLessThan(5 * Math.sqrt((p ** 2 * (1 - p ** 2)) / count));
    }
  });

  it("dropout with p = 1 zeroes everything", () => {
    expect(scope(() => [...dropout(ones([5]), 1, trainMode).toFloat32Array()])).toEqual([0, 0, 0, 0, 0]);
  });

  it("dropout masks depend only on the seed, not on the thread count", () => {
    const before = getNumThreads();
    const masks = (count: number): Buffer[] => {
      setNumThreads(count);
      seedGenerator("cpu", 6);
      const mask = (): Buffer => Buffer.from(scope(() => dropout(ones([300, 301]), 0.3, trainMode).toBytes()));
      return [mask(), mask()];
    };
    const [first, second] = masks(1) as [Buffer, Buffer];
    expect(first.equals(second)).toBe(false);
    expect(masks(2).map((mask, i) => mask.equals(i === 0 ? first : second))).toEqual([true, true]);
    setNumThreads(before);
    expect(() => dropoutMask([2], 1, "float32")).toThrow("expected a probability in [0, 1), received 1");
    expect(() => dropoutMask([2], 0.5, "int64" as "float32")).toThrow("received Long");
  });

  it("a missing parameter is named", () => {
    expect(() => dense(new Map(), "x", ones([1]))).toThrow("there is no parameter x.weight");
  });
});
