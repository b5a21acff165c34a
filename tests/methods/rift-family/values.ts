import { expect } from "vitest";
import { type Tensor, tensor } from "../../../src/tensor/index.js";

export type Nested = number | readonly Nested[];

const flat = (value: Nested): number[] => (typeof value === "number" ? [value] : value.flatMap(flat));
const getShape = (value: Nested): number[] =>
  typeof value === "number" ? [] : [value.length, ...getShape(value[0] ?? 0)];

/** Converts nested lists of a fixture to a tensor. */
export function from(value: Nested, kind: "floats" | "integers" | "mask" = "floats"): Tensor {
  const numbers = flat(value);
  const data =
    kind === "floats"
      ? Float32Array.from(numbers)
      : kind === "integers"
        ? Int32Array.from(numbers)
        : Uint8Array.from(numbers);
  return tensor(data, getShape(value));
}

/** Expects the shape of the reference and values within the tolerance. */
export function expectClose(seen: Tensor, expected: Nested, tolerance = 1e-5): void {
  expect(seen.shape).toEqual(getShape(expected));
  const [ours, theirs] = [seen.toFloat32Array(), flat(expected)];
  const worst = theirs.reduce((most, value, i) => Math.max(most, Math.abs(value - (ours[i] as number))), 0);
  expect(worst).toBeLessThan(tolerance);
}
