import { describe, expect, it } from "vitest";
import { createDropoutObserver, observeConsistency } from "../../src/analysis/consistency.js";
import { computeCosine, sampleDirection, shiftWeights } from "../../src/analysis/directions.js";
import { createFixedBatch } from "../../src/analysis/fixed-batch.js";
import { interpolateWeights, linspace, measureInterpolation } from "../../src/analysis/interpolation.js";
import { measureLandscape } from "../../src/analysis/landscape.js";
import { createMethods } from "../../src/methods/index.js";
import { mapWeights } from "../../src/nn/index.js";
import { Rng, scope } from "../../src/tensor/index.js";
import { train } from "../../src/train/index.js";
import { computeRelativeDistances } from "../../src/train/weight-distance.js";
import { texts, tinyDataset, tinyJob, tinyModel, valuesOf } from "../methods/tiny.js";

const examples = tinyDataset(texts).items.map((item) => item.example);
const model = tinyModel();
const batch = createFixedBatch(model, examples, "cpu");
const scaled = (factor: number) => mapWeights(model.weights, (tensor) => tensor.detach().mul(factor));

describe("distance", () => {
  it("of a model to itself is 0, part by part", () => {
    expect(computeRelativeDistances(model.weights, model.weights)).toEqual({
      all: 0,
      embeddings: 0,
      "layer 0": 0,
      "layer 1": 0,
    });
  });

  it("to a scaled copy is the scale's", () => {
    for (const value of Object.values(computeRelativeDistances(scaled(1.25), model.weights)))
      expect(value).toBeCloseTo(0.25, 6);
    for (const value of Object.values(computeRelativeDistances(scaled(-1), model.weights)))
      expect(value).toBeCloseTo(2, 6);
  });

  it("is of the part that moved, and heads do not count", () => {
    const moved = mapWeights(model.weights, (tensor, name) =>
      /layer\.1|pooler|classifier/.test(name) ? tensor.detach().mul(2) : tensor,
    );
    const distances = computeRelativeDistances(moved, model.weights);
    expect(Object.keys(distances)).toEqual(["all", "embeddings", "layer 0", "layer 1"]);
    expect(distances).toMatchObject({ embeddings: 0, "layer 0": 0 });
    expect(distances["layer 1"]).toBeCloseTo(1, 6);
    expect(distances.all).toBeGreaterThan(0);
    expect(distances.all).toBeLessThan(1);
  });
});

describe("interpolation", () => {
  const other = { weights: scaled(0.5) };

  it("ends equal the two models' losses", async () => {
    const { data } = await measureInterpolation({
      from: { label: "a", weights: model.weights },
      to: { label: "b", weights: other.weights },
      facts: { task: "tiny", split: "test", examples: examples.length },
      alphas: linspace(-0.5, 1.5, 5),
      measure: batch.measure,
    });
    expect(data.points.map(({ alpha }) => alpha)).toEqual([-0.5, 0, 0.5, 1, 1.5]);
    expect(data.points[1]).toEqual({ alpha: 0, ...batch.measure(model.weights) });
    expect(data.points[3]).toEqual({ alpha: 1, ...batch.measure(other.weights) });
    expect(data.points[2]!.loss).toBeCloseTo(batch.measure(scaled(0.75)).loss, 5);
    expect(data.points[4]!.loss).toBeCloseTo(batch.measure(scaled(0.25)).loss, 5);
  });

  it("of models of other shapes is refused, and says in what they differ", () => {
    const wide = tinyModel({ ...model.architecture.config.raw, intermediate_size: 32 });
    expect(() => interpolateWeights(model.weights, wide.weights, 0.5)).toThrow(
      /two models of one shape, but they differ in bert\.encoder\.layer\.0\.intermediate/,
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

  it("directions have each filter's own length, leave vectors alone, and are all but orthogonal", () => {
    for (const [name, tensor] of model.weights) {
      const direction = delta.get(name);
      expect(direction === undefined).toBe(tensor.shape.length < 2);
      if (!direction) continue;
      const [expected, drawn] = [
        norms(tensor.toFloat32Array(), tensor.size(-1)),
        norms(direction.toFloat32Array(), tensor.size(-1)),
      ];
      for (const [row, norm] of drawn.entries()) expect(norm).toBeCloseTo(expected[row]!, 4);
    }
    expect(Math.abs(computeCosine(delta, eta))).toBeLessThan(0.15);
    expect(computeCosine(delta, delta)).toBeCloseTo(1, 6);
  });

  it("goes along alpha delta + beta eta", () => {
    const name = "bert.encoder.layer.0.output.dense.weight";
    const moved = scope(() => [...shiftWeights(model.weights, delta, 0.5, eta, -2).get(name)!.toFloat32Array()]);
    const [weight, one, two] = [model.weights, delta, eta].map((named) => named.get(name)!.toFloat32Array());
    for (const [i, value] of moved.entries()) expect(value).toBeCloseTo(weight![i]! + 0.5 * one![i]! - 2 * two![i]!, 5);
  });

  const measure = (ledger: Map<string, number>, stopAfter = Number.POSITIVE_INFINITY) => {
    let left = stopAfter;
    return measureLandscape({
      label: "tiny",
      cacheKey: "tiny",
      weights: model.weights,
      loss(weights) {
        if (left-- === 0) throw new Error("killed");
        return batch.measure(weights).loss;
      },
      seed: 7,
      axis: [-0.2, 0, 0.2],
      cache: { get: (key) => ledger.get(key), add: (key, value) => void ledger.set(key, value) },
    });
  };

  it("has the model's own loss in its centre, and higher ground about a model that fits", async () => {
    const { centre, losses, cosine } = await measure(new Map());
    expect(centre).toBe(batch.measure(model.weights).loss);
    expect(losses[1]![1]).toBe(centre);
    expect(new Set(losses.flat()).size).toBe(9);
    expect(Math.abs(cosine)).toBeLessThan(0.15);
  });

  it("stopped and resumed equals uninterrupted, and computes only what is missing", async () => {
    const ledger = new Map<string, number>();
    await expect(measure(ledger, 4)).rejects.toThrow("killed");
    expect(ledger.size).toBe(4);
    expect(await measure(ledger, 5)).toEqual(await measure(new Map()));
  });
});

describe("consistency", () => {
  const layersOf = (...names: string[]) => createMethods(names.map((name) => ({ name, options: {} })));

  it.each([[[]], [["r-drop"]], [["freelb"]]])("the observer leaves training over %j as it was", async (names) => {
    const [plain, watched] = [tinyModel(), tinyModel()];
    await train(tinyJob(plain, layersOf(...names)));
    await train(tinyJob(watched, [...layersOf(...names), createDropoutObserver()]));
    expect(valuesOf(watched.weights)).toEqual(valuesOf(plain.weights));
  });

  it("counts the share of predictions that differ, of all examples", async () => {
    const steps = await observeConsistency(tinyJob(tinyModel(), [], {}, { learningRate: 0 }));
    expect(steps).toHaveLength(6);
    expect(steps.map(({ examples: count }) => count)).toEqual([4, 4, 4, 4, 4, 4]);
    for (const { share } of steps) expect([0, 0.25, 0.5, 0.75, 1]).toContain(share);
  });

  it("is 0 without dropout", async () => {
    const steps = await observeConsistency(tinyJob(tinyModel(), [], {}, { dropout: false }));
    expect(steps.map(({ share }) => share)).toEqual([0, 0, 0, 0, 0, 0]);
  });

  it("agrees with what a two-pass method logs itself", async () => {
    const logged: unknown[] = [];
    await train(
      tinyJob(tinyModel(), layersOf("r-drop"), { callbacks: { onEvent: (event) => logged.push(event.disagreement) } }),
    );
    const observed = await observeConsistency(tinyJob(tinyModel(), layersOf("r-drop")));
    expect(observed.map(({ share }) => share)).toEqual(logged);
  });
});
