import {
  bernoulli_,
  cat,
  type Device,
  dropoutMask,
  empty,
  foreachMul_,
  noGrad,
  runOnParallelStreams,
  scope,
  splitWithSizes,
  type Tensor,
} from "../tensor/index.js";

/** Concatenates tensors into one flat tensor, differentiably and with few kernel launches. */
export function flattenTensors(tensors: readonly Tensor[]): Tensor {
  const flat = tensors.map((tensor) => tensor.reshape(-1));
  return flat.length === 1 ? (flat[0] as Tensor) : cat(flat, 0);
}

export const getNumel = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);

export function unflattenTensors(flat: Tensor, shapes: readonly (readonly number[])[]): Tensor[] {
  return splitWithSizes(flat, shapes.map(getNumel), 0).map((part, i) =>
    part.reshape(...(shapes[i] as readonly number[])),
  );
}

// Decides how an operation over many tensors runs. On a GPU, a kernel over one small tensor is
// mostly launch overhead, so tensors are flattened into one or spread over parallel streams. On a
// CPU, one tensor at a time uses less memory and fits the caches.

/** Lists of equal length; tensor i of one list belongs to tensor i of the others. */
export type TensorLists = readonly (readonly Tensor[])[];

function groupForDevice(device: Device, lists: TensorLists): TensorLists[] {
  if (device !== "cpu") return [lists];
  return (lists[0] ?? []).map((_, i) => lists.map((list) => [list[i]!]));
}

/** Computes an elementwise function of lists of tensors on one flat tensor per list. */
export function mapElementwise(device: Device, lists: TensorLists, compute: (...flat: Tensor[]) => Tensor): Tensor[] {
  return groupForDevice(device, lists).flatMap((group) =>
    scope(() =>
      unflattenTensors(
        compute(...group.map(flattenTensors)),
        group[0]!.map(({ shape }) => shape),
      ),
    ),
  );
}

/** Sums a scalar function over lists of tensors. `compute` gets one flat tensor per list. */
export function sumOverTensors(device: Device, lists: TensorLists, compute: (...flat: Tensor[]) => Tensor): Tensor {
  return groupForDevice(device, lists)
    .map((group) => scope(() => compute(...group.map(flattenTensors))))
    .reduce((sum, value) => sum.add(value));
}

/** Computes tensor = tensor * factor for each tensor, in place. */
export function mulAll_(tensors: readonly Tensor[], factors: readonly Tensor[]): void {
  updateInParallel(tensors, (tensor, i) => tensor.mul_(factors[i]!));
}

/** Computes tensor + weight * (end - tensor) for each tensor in place, exact at 0 and 1. */
export function lerpAll_(tensors: readonly Tensor[], ends: readonly Tensor[], weights: readonly Tensor[]): void {
  updateInParallel(tensors, (tensor, i) => tensor.lerp_(ends[i]!, weights[i]!));
}

function updateInParallel(tensors: readonly Tensor[], update_: (tensor: Tensor, i: number) => void): void {
  runOnParallelStreams(
    tensors[0]?.device ?? "cpu",
    tensors.map((tensor, i) => () => update_(tensor, i)),
  );
}

/** Multiplies each tensor in place by a random mask (`sampleMasks`). */
export function maskRandomly_(device: Device, tensors: readonly Tensor[], p: number): void {
  for (const [group] of groupForDevice(device, [tensors]))
    scope(() => {
      const shapes = group!.map(({ shape }) => shape);
      foreachMul_(group!, sampleMasks(shapes, p, device));
    });
}

/** Samples masks whose elements are 1 / p with probability p, otherwise 0. */
export function sampleMasks(shapes: readonly (readonly number[])[], p: number, device: Device): Tensor[] {
  return noGrad(() =>
    scope(() => {
      // On a CPU, libtorch samples with a single thread; this mask uses all of them.
      if (device === "cpu") return shapes.map((shape) => dropoutMask(shape, 1 - p, "float32"));
      const flat = empty([shapes.reduce((sum, shape) => sum + getNumel(shape), 0)], { device });
      bernoulli_(flat, p);
      return unflattenTensors(flat.div_(p), shapes);
    }),
  );
}
