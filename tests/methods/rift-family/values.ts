import { expect } from "vitest";
import { type Tensor, tensor } from "../../../src/tensor/index.js";

export type Nested = number | readonly Nested[];

const flat = (value: Nested): number[] => (typeof value === "number" ? [value] : value.flatMap(flat));
const shapeOf = (value: Nested): number[] =>
  typeof value === "number" ? [] : [value.length, ...shapeOf(value[0] ?? 0)];

/** A tensor of a fixture's nested lists. */
export function from(value: Nested, kind: "floats" | "integers" | "mask" = "floats"): Tensor {
  const numbers = flat(value);
  const data =
    kind === "floats"
      ? Float32Array.from(numbers)
      : kind === "integers"
        ? Int32Array.from(numbers)
        : Uint8Array.from(numbers);
  return tensor(data, shapeOf(value));
}

/** Every number within 1e-5 of the reference, and the same shape. */
export function expectClose(seen: Tensor, expected: Nested, tolerance = 1e-5): void {
  expect(seen.shape).toEqual(shapeOf(expected));
  const [ours, theirs] = [seen.toFloat32Array(), flat(expected)];
  const worst = theirs.reduce((most, value, i) => Math.max(most, Math.abs(value - (ours[i] as number))), 0);
  expect(worst).toBeLessThan(tolerance);
}
