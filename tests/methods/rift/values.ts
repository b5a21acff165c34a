import { expect } from "vitest";
import { type Tensor, tensor } from "../../../src/tensor/index.js";
import { expectClose, type Rounding } from "../../rounding.js";

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

/** Expects the shape and the values of the reference. */
export function expectValues(seen: Tensor, expected: Nested, rounding?: Rounding): void {
  expect(seen.shape).toEqual(getShape(expected));
  expectClose(seen, flat(expected), rounding);
}
