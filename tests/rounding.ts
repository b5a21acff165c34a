import { expect } from "vitest";
import { noGrad, Rng, scope, type Tensor } from "../src/tensor/index.js";

/** The largest relative error of one rounding. Tolerances are multiples of it and of the sizes of the terms. */
export const unitRoundoff = { float32: 2 ** -24, bfloat16: 2 ** -8 } as const;

export const getLargest = (values: ArrayLike<number>): number =>
  Array.from(values).reduce((most, value) => Math.max(most, Math.abs(value)), 0);

/** The largest difference between two lists of the same length. */
export function computeDistance(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  expect(actual.length).toBe(expected.length);
  return getLargest(Array.from(actual, (value, i) => value - (expected[i] as number)));
}

/**
 * Compares what a function computes from float32 weights with its reference. How much rounding may
 * change a result depends on its condition: a gradient that is 0 in exact arithmetic is a sum of
 * terms that cancel, and a perturbation that is divided by its norm magnifies every error. So the
 * function is repeated with weights that differ by one rounding each. The result may be wrong by a
 * multiple of what that changes.
 */
export function expectWellComputed(
  weights: readonly Tensor[],
  compute: () => ReadonlyMap<string, Tensor>,
  expected: Readonly<Record<string, { readonly values: readonly number[] }>>,
): void {
  const run = (): Map<string, Float32Array> =>
    scope(() => {
      const tensors = compute();
      return new Map(Object.keys(expected).map((name) => [name, (tensors.get(name) as Tensor).toFloat32Array()]));
    });
  const found = run();
  const rng = new Rng("roundings");
  const originals = weights.map((weight) => weight.toFloat32Array());
  const write = (values: readonly Float32Array[]): void =>
    noGrad(() => {
      for (const [i, weight] of weights.entries()) weight.write(values[i] as Float32Array);
    });
  const unit = unitRoundoff.float32;
  const changed = Array.from({ length: 4 }, () => {
    write(originals.map((values) => values.map((value) => value * (1 + (rng.next() < 0.5 ? -2 : 2) * unit))));
    return run();
  });
  write(originals);
  for (const [name, { values }] of Object.entries(expected)) {
    const own = found.get(name) as Float32Array;
    const sensitivity = Math.max(...changed.map((other) => computeDistance(own, other.get(name) as Float32Array)));
    const tolerance = 8 * (sensitivity + unit * getLargest(values));
    expect(computeDistance(own, values), `${name}: ${own.slice(0, 5)}`).toBeLessThanOrEqual(tolerance);
  }
}
