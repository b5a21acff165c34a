import { kthvalue, type Tensor } from "../tensor/index.js";

/** A quantile with linear interpolation (libtorch's own accepts at most 2^24 elements). */
export function computeQuantile(values: Tensor, fraction: number): Tensor {
  const position = fraction * (values.size(0) - 1);
  const index = Math.floor(position);
  const findSmallest = (k: number): Tensor => kthvalue(values, k, 0)[0];
  const low = findSmallest(index + 1);
  const weight = position - index;
  return weight === 0
    ? low
    : low.add(
        findSmallest(index + 2)
          .sub(low)
          .mul(weight),
      );
}
