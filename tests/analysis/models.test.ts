import { describe, expect, it } from "vitest";
import { linspace } from "../../src/analysis/define-analysis.js";
import { interpolateWeights, measureLine } from "../../src/analysis/interpolation.js";
import { measureLandscape, type SurfacePoint, sampleDirection, shiftWeights } from "../../src/analysis/landscape.js";
import { createFixedBatch } from "../../src/analysis/shared-sample.js";
import { standardDeviation } from "../../src/evaluation/statistics.js";
import { mapWeights } from "../../src/nn/index.js";
import { Rng, scope } from "../../src/tensor/index.js";
import { computeRelativeDistances } from "../../src/train/weight-distance.js";
import { texts, tinyDataset, tinyModel } from "../methods/tiny.js";
import { expectClose, expectComputed, expectComputedAsync, getLargest } from "../rounding.js";

const examples = tinyDataset(texts).items.map((item) => item.example);
const model = tinyModel();
const batch = createFixedBatch(model, examples, "cpu");
const scaled = (factor: number) => mapWeights(model.weights, (tensor) => tensor.detach().mul(factor));

describe("distance", () => {
  it("of a model to itself is 0 in every part", () => {
    expect(computeRelativeDistances(model.weights, model.weights)).toEqual({
      all: 0,
      embeddings: 0,
      "layer 0": 0,
      "layer 1": 0,
    });
  });

  it("to a scaled copy is the scale minus 1", () => {
    for (const factor of [1.25, -1]) {
      const compute = (): Record<string, number> => computeRelativeDistances(scaled(factor), model.weights);
      const expected = Object.fromEntries(Object.keys(compute()).map((part) => [part, Math.abs(factor - 1)]));
      // Each weight is rounded when it is scaled.
      expectComputed(compute, expected, { scale: Math.abs(factor) });
    }
  });

  it("is measured per part and ignores heads", () => {
    const moved = mapWeights(model.weights, (tensor, name) =>
      /layer\.1|pooler|classifier/.test(name) ? tensor.detach().mul(2) : tensor,
    );
    const compute = (): Record<string, number> => computeRelativeDistances(moved, model.weights);
    const distances = compute();
    expect(Object.keys(distances)).toEqual(["all", "embeddings", "layer 0", "layer 1"]);
    expect(distances).toMatchObject({ embeddings: 0, "layer 0": 0 });
    expectComputed(compute, { "layer 1": 1 });
    expect(distances.all).toBeGreaterThan(0);
    expect(distances.all).toBeLessThan(1);
  });
});

describe("interpolation", () => {
  const other = { weights: scaled(0.5) };

  it("alpha 0 and 1 give the losses of the two models", async () => {
    const alphas = linspace(-0.5, 1.5, 5);
    const { points } = await measureLine(model.weights, other.weights, alphas, batch.measure);
    expect(points.map(({ alpha }) => alpha)).toEqual([-0.5, 0, 0.5, 1, 1.5]);
    for (const [i, { weights }] of [
      [1, model],
      [3, other],
    ] as const) {
      const { losses: each, ...expected } = batch.measure(weights);
      const lossError = standardDeviation(each) / Math.sqrt(each.length);
      expect(points[i]).toEqual({ alpha: (i - 1) / 2, ...expected, lossError });
    }
    const losses = [0.75, 0.25].map((factor) => batch.measure(scaled(factor)).loss);
    await expectComputedAsync(async () => {
      const line = await measureLine(model.weights, other.weights, alphas, batch.measure);
      return [line.points[2]!.loss, line.points[4]!.loss];
    }, losses);
  });

  it("of models with different shapes is rejected by the name of the parameter", () => {
    const wide = tinyModel({ ...model.architecture.config.raw, intermediate_size: 32 });
    expect(() => interpolateWeights(model.weights, wide.weights, 0.5)).toThrow(
      /The two models differ in the shape of bert\.encoder\.layer\.0\.intermediate/,
    );
  });
});

describe("landscape", () => {
  const delta = sampleDirection(model.weights, new Rng("delta"));
  const eta = sampleDirection(model.weights, new Rng("eta"));
  const norms = (rows: Float32Array, width: number): number[] =>
    Array.from({ length: rows.length / width }, (_, row) =>
      Math.hypot(...rows.subarray(row * width, (row + 1) * width)),
    );

  it("directions have the norm of each filter and do not change vectors", () => {
    for (const [name, tensor] of model.weights) {
      const direction = delta.get(name);
      expect(direction === undefined).toBe(tensor.shape.length < 2);
      if (!direction) continue;
      const [expected, sampled] = [
        norms(tensor.toFloat32Array(), tensor.size(-1)),
        norms(direction.toFloat32Array(), tensor.size(-1)),
      ];
      expectClose(sampled, expected, {}, name);
    }
  });

  it("shifts the weights by alpha delta + beta eta", () => {
    const name = "bert.encoder.layer.0.output.dense.weight";
    const moved = scope(() => [...shiftWeights(model.weights, delta, 0.5, eta, -2).get(name)!.toFloat32Array()]);
    const [weight, one, two] = [model.weights, delta, eta].map((named) => named.get(name)!.toFloat32Array());
    const expected = moved.map((_, i) => weight![i]! + 0.5 * one![i]! - 2 * two![i]!);
    const sizes = moved.map((_, i) => Math.abs(weight![i]!) + 0.5 * Math.abs(one![i]!) + 2 * Math.abs(two![i]!));
    expectClose(moved, expected, { terms: 4, scale: getLargest(sizes) });
  });

  const measure = (entries: Map<string, SurfacePoint>, stopAfter = Number.POSITIVE_INFINITY) => {
    let left = stopAfter;
    return measureLandscape({
      label: "tiny",
      cacheKey: "tiny",
      weights: model.weights,
      measure(weights) {
        if (left-- === 0) throw new Error("killed");
        return batch.measure(weights);
      },
      seed: 7,
      axis: [-0.2, 0, 0.2],
      cache: { get: (key) => entries.get(key), add: (key, value) => void entries.set(key, value) },
    });
  };

  it("has the loss of the model in its center", async () => {
    const entries = new Map<string, SurfacePoint>();
    const { losses, meanChange, interval } = await measure(entries);
    expect(losses[1]![1]).toBe(batch.measure(model.weights).loss);
    expect(new Set(losses.flat()).size).toBe(9);
    for (const { loss, losses: each } of entries.values()) {
      expect(each).toHaveLength(examples.length);
      expectClose(each.reduce((sum, value) => sum + value, 0) / each.length, loss);
    }
    expect(interval.low).toBeLessThan(meanChange);
    expect(interval.high).toBeGreaterThan(meanChange);
  });

  it("stopped and resumed equals uninterrupted, and computes only the missing points", async () => {
    const entries = new Map<string, SurfacePoint>();
    await expect(measure(entries, 4)).rejects.toThrow("killed");
    expect(entries.size).toBe(4);
    expect(await measure(entries, 5)).toEqual(await measure(new Map()));
  });
});
