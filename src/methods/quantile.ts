import { kthvalue, type Tensor } from "../tensor/index.js";

/** The k-th smallest of a vector, from 1. */
export function kthSmallest(values: Tensor, k: number): Tensor {
  return kthvalue(values, k, 0)[0];
}

/** A vector's quantile with linear interpolation, of any length (libtorch's own refuses more than 2^24 elements). */
export function computeQuantile(values: Tensor, fraction: number): Tensor {
  const position = fraction * (values.size(0) - 1);
  const below = Math.floor(position);
  const low = kthSmallest(values, below + 1);
  const between = position - below;
  return between === 0
    ? low
    : low.add(
        kthSmallest(values, below + 2)
          .sub(low)
          .mul(between),
      );
}
