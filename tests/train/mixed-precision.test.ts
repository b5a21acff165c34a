import { afterEach, beforeEach, expect, test } from "vitest";
import { forward, toModelInput } from "../../src/models/index.js";
import type { Model } from "../../src/models/model.js";
import { crossEntropy, evalMode, type Weights } from "../../src/nn/index.js";
import { dropoutMask, free, getMemoryStats, noGrad, scope, seedGenerator, tensor } from "../../src/tensor/index.js";
import { padBatch } from "../../src/text/batch.js";
import { castWeights, computeGradients, LowPrecisionWeights } from "../../src/train/mixed-precision.js";
import { tinyModel } from "../methods/tiny.js";
import { trainTiny } from "../methods/train-tiny.js";
import { expectClose, measureSpread } from "../rounding.js";

let model: Model;
let before: number;
beforeEach(() => {
  before = getMemoryStats().tensors;
  model = tinyModel();
});
afterEach(() => {
  free(model.weights);
  expect(getMemoryStats().tensors).toBe(before);
});

/** The gradients of the parameters if the forward pass uses other weights. */
function differentiate(
  weights: Weights,
  copies: LowPrecisionWeights | null = null,
  keepsDtype = false,
): Map<string, Float32Array> {
  return scope(() => {
    const encoded = ["w4 w5 w6", "w7 w8 w9 w10 w11"].map((text) => model.tokenizer.encodeWords([text], 12));
    const { logits } = forward(
      model.architecture,
      weights,
      toModelInput(padBatch(encoded, 0), model.architecture.config, "cpu"),
      evalMode,
    );
    const loss = crossEntropy(logits, tensor(Int32Array.from([0, 2]), [2]));
    const gradients = computeGradients(loss, model.weights, copies, { keepsDtype });
    if (keepsDtype) for (const { dtype } of gradients.values()) expect(dtype).toBe("bfloat16");
    return new Map([...gradients].map(([name, gradient]) => [name, gradient.to("float32").toFloat32Array()]));
  });
}

test("gradients of a low-precision copy are mapped back to the parameters, with projections split", () => {
  const direct = differentiate(model.weights);
  const copies = new LowPrecisionWeights(model, "float32");
  const through = differentiate(copies.weights, copies);
  copies.dispose();
  expectClose(through, direct, { spread: measureSpread(() => differentiate(model.weights)) });
});

test("gradients pass through cast weights to the parameters", () => {
  const direct = differentiate(model.weights);
  const through = scope(() => differentiate(castWeights(model.architecture.config, model.weights, "float32")));
  expectClose(through, direct, { spread: measureSpread(() => differentiate(model.weights)) });
});

test("gradients of a bfloat16 copy are close to the exact ones", () => {
  const direct = differentiate(model.weights);
  const copies = new LowPrecisionWeights(model, "bfloat16");
  const through = differentiate(copies.weights, copies);
  copies.dispose();
  const norm = (values: Iterable<number>): number =>
    Math.sqrt([...values].reduce((sum, value) => sum + value * value, 0));
  const name = "bert.encoder.layer.1.attention.self.value.weight";
  const [exact, near] = [direct.get(name) as Float32Array, through.get(name) as Float32Array];
  // Dozens of roundings of 2^-8 in the forward and backward pass. A wrong gradient differs by its own size.
  expect(norm(exact.map((value, i) => value - (near[i] as number)))).toBeLessThan(0.25 * norm(exact));
});

test("gradients that keep the dtype of the copy have the same values", () => {
  const copies = new LowPrecisionWeights(model, "bfloat16");
  const [wide, narrow] = [false, true].map((keepsDtype) => differentiate(copies.weights, copies, keepsDtype));
  copies.dispose();
  expect(narrow).toEqual(wide);
});

test("a copy changes only when it is refreshed", () => {
  const copies = new LowPrecisionWeights(model, "float32");
  const name = "bert.encoder.layer.0.output.dense.bias";
  scope(() => {
    noGrad(() => model.weights.get(name)?.detach().fill_(3));
  });
  expect(copies.weights.get(name)?.toFloat32Array()[0]).not.toBe(3);
  copies.refresh();
  expect(copies.weights.get(name)?.toFloat32Array()[0]).toBe(3);
  copies.dispose();
});

test.each([[[]], [["ascc"]], [["rose"]]])("training on a CPU in bfloat16 follows float32, with %j", async (names) => {
  const run = async (computeDtype: "float32" | "bfloat16"): Promise<number[]> => {
    const settings = { epochs: 8, batchSize: 12, dropout: false };
    const deviceConfig = { device: "cpu", computeDtype } as const;
    const methods = names.map((name) => [name] as const);
    return (await trainTiny(methods, settings, { deviceConfig })).events.map(({ loss }) => loss as number);
  };
  const [exact, low] = [await run("float32"), await run("bfloat16")];
  expect(low).toHaveLength(8);
  expect(low).not.toEqual(exact);
  expect(low.at(-1)).toBeLessThan(low[0]!);
  // Errors of 2^-8 per product average out: a few of them remain of a loss of about 1.
  expectClose(low, exact, { format: "bfloat16", terms: 4, scale: 1 + Math.max(...exact) });
});

test("dropout masks in bfloat16 are those of float32", () => {
  scope(() => {
    const draw = (dtype: "float32" | "bfloat16"): boolean[] => {
      seedGenerator("cpu", 7);
      return [...dropoutMask([1001], 0.25, dtype).to("float32").toFloat32Array()].map((value) => value === 0);
    };
    const masks = draw("bfloat16");
    expect(masks).toEqual(draw("float32"));
    // Five standard deviations.
    expect(Math.abs(masks.filter(Boolean).length - 250)).toBeLessThan(5 * Math.sqrt(1001 * 0.25 * 0.75));
  });
});
