import { kthvalue, type Tensor } from "../tensor/index.js";

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
