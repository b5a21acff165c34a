import { kthvalue, operator, type Tensor } from "../tensor/index.js";

/** Sorts so that equal values keep their order. Returns values and indices. */
export const stableSort = operator<
  (self: Tensor, stable: boolean, dim: number, descending: boolean) => [Tensor, Tensor]
>("sort", "stable");
export const scatter = operator<(self: Tensor, dim: number, index: Tensor, source: Tensor) => Tensor>("scatter", "src");

export function kthSmallest(values: Tensor, k: number): Tensor {
  return kthvalue(values, k, 0)[0];
}

/** A quantile with linear interpolation (libtorch's own accepts at most 2^24 elements). */
export function computeQuantile(values: Tensor, fraction: number): Tensor {
  const position = fraction * (values.size(0) - 1);
  const index = Math.floor(position);
  const low = kthSmallest(values, index + 1);
  const weight = position - index;
  if (weight === 0) return low;
  return low.add(
    kthSmallest(values, index + 2)
      .sub(low)
      .mul(weight),
  );
}
