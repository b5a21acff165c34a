import { cat, splitWithSizes, type Tensor } from "../tensor/index.js";

/**
 * What to work on at once: all of them on a GPU, where a kernel over one tensor is mostly launch, one by one on a CPU, whose caches
 * and memory that spares.
 */
export function groupForDevice<T>(device: string, items: readonly T[]): (readonly T[])[] {
  return device === "cpu" ? items.map((item) => [item]) : [items];
}

/** Tensors end to end, as one flat tensor; autograd goes through it, and through `apart`, in a launch or two. */
export function flattenTensors(tensors: readonly Tensor[]): Tensor {
  const flat = tensors.map((tensor) => tensor.reshape(-1));
  return flat.length === 1 ? (flat[0] as Tensor) : cat(flat, 0);
}

export const getNumel = (shape: readonly number[]): number => shape.reduce((size, side) => size * side, 1);

/** A flat tensor's pieces in these shapes. */
export function unflattenTensors(flat: Tensor, shapes: readonly (readonly number[])[]): Tensor[] {
  return splitWithSizes(flat, shapes.map(getNumel), 0).map((piece, i) =>
    piece.reshape(...(shapes[i] as readonly number[])),
  );
}
