import { cat, splitWithSizes, type Tensor } from "../tensor/index.js";

/**
 * Groups tensors that one kernel should process together: all of them on a GPU, where a kernel over
 * one tensor is mostly launch overhead; one by one on a CPU, where that fits the cache better.
 */
export function groupForDevice<T>(device: string, items: readonly T[]): (readonly T[])[] {
  return device === "cpu" ? items.map((item) => [item]) : [items];
}

/**
 * Concatenates tensors into one flat tensor. Autograd works through it with few kernel launches.
 */
export function flattenTensors(tensors: readonly Tensor[]): Tensor {
  const flat = tensors.map((tensor) => tensor.reshape(-1));
  return flat.length === 1 ? (flat[0] as Tensor) : cat(flat, 0);
}

/** Returns the number of elements of a shape. */
export const getNumel = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);

/** Splits a flat tensor into tensors of the given shapes. */
export function unflattenTensors(flat: Tensor, shapes: readonly (readonly number[])[]): Tensor[] {
  return splitWithSizes(flat, shapes.map(getNumel), 0).map((part, i) =>
    part.reshape(...(shapes[i] as readonly number[])),
  );
}
