import { afterEach, beforeEach, expect, test } from "vitest";
import { forward, toModelInput } from "../../src/models/index.js";
import type { Model } from "../../src/models/model.js";
import { crossEntropy, evalMode, type Weights } from "../../src/nn/index.js";
import { free, getMemoryStats, noGrad, scope, tensor } from "../../src/tensor/index.js";
import { padBatch } from "../../src/text/batch.js";
import { castWeights } from "../../src/train/cast.js";
import { gradientsOf } from "../../src/train/index.js";
import { LowPrecisionWeights } from "../../src/train/mixed-precision.js";
import { tinyModel } from "../methods/tiny.js";

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

function gradientsThrough(weights: Weights): Map<string, Float32Array> {
  return scope(() => {
    const encoded = ["w4 w5 w6", "w7 w8 w9 w10 w11"].map((text) => model.tokenizer.encodeWords([text], 12));
    const { logits } = forward(model.architecture, weights, toModelInput(padBatch(encoded, 0), "cpu"), evalMode);
    const loss = crossEntropy(logits, tensor(Int32Array.from([0, 2]), [2]));
    return new Map([...gradientsOf(loss, model.weights)].map(([name, gradient]) => [name, gradient.toFloat32Array()]));
  });
}

function expectNear(found: ReadonlyMap<string, Float32Array>, wanted: ReadonlyMap<string, Float32Array>): void {
  expect([...found.keys()]).toEqual([...wanted.keys()]);
  for (const [name, values] of wanted) {
    const worst = values.reduce(
      (most, value, i) => Math.max(most, Math.abs(value - (found.get(name)?.[i] ?? Number.NaN))),
      0,
    );
    expect(worst, name).toBeLessThan(1e-6);
  }
}

test("gradients taken through a copy are the parameters' own, projections apart again", () => {
  const direct = gradientsThrough(model.weights);
  const shadow = new LowPrecisionWeights(model, "float32");
  const through = gradientsThrough(shadow.weights);
  shadow.dispose();
  expectNear(through, direct);
});

test("gradients taken through weights cast together are the parameters' own", () => {
  const direct = gradientsThrough(model.weights);
  const through = scope(() => gradientsThrough(castWeights(model.architecture.config, model.weights, "float32")));
  expectNear(through, direct);
});

test("in bfloat16 they come back as float32, near the exact ones", () => {
  const direct = gradientsThrough(model.weights);
  const shadow = new LowPrecisionWeights(model, "bfloat16");
  const through = gradientsThrough(shadow.weights);
  shadow.dispose();
  const norm = (values: Iterable<number>): number =>
    Math.sqrt([...values].reduce((sum, value) => sum + value * value, 0));
  const name = "bert.encoder.layer.1.attention.self.value.weight";
  const [exact, near] = [direct.get(name) as Float32Array, through.get(name) as Float32Array];
  expect(norm(exact.map((value, i) => value - (near[i] as number)))).toBeLessThan(0.1 * norm(exact));
});

test("a copy follows the weights when refreshed, and not before", () => {
  const shadow = new LowPrecisionWeights(model, "float32");
  const name = "bert.encoder.layer.0.output.dense.bias";
  scope(() => {
    noGrad(() => model.weights.get(name)?.detach().fill_(3));
  });
  expect(shadow.weights.get(name)?.toFloat32Array()[0]).not.toBe(3);
  shadow.refresh();
  expect(shadow.weights.get(name)?.toFloat32Array()[0]).toBe(3);
  shadow.dispose();
});
