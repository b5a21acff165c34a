import { flattenTensors } from "../../nn/index.js";
import { foreachNorm, onesLike, stack, type Tensor, where } from "../../tensor/index.js";

/**
 * The unit that has one risk and one mask value: a parameter tensor (eq. 2 to 5 and the released
 * code) or a single element. Risks and masks of all tensors form one vector, in the order of the
 * tensors.
 */
interface Granularity {
  /** The number of vector entries that belong to a tensor. */
  countEntries(tensor: Tensor): number;
  /** The norm of each entry: [entry]. */
  computeNorms(tensors: readonly Tensor[]): Tensor;
  /** The mask entries of a tensor, in a shape that broadcasts with it. */
  sliceMask(mask: Tensor, start: number, tensor: Tensor): Tensor;
}

export const granularities: Readonly<Record<"tensor" | "element", Granularity>> = {
  tensor: {
    countEntries: () => 1,
    computeNorms: (tensors) => stack(foreachNorm(tensors, 2), 0),
    sliceMask: (mask, start) => mask.select(0, start),
  },
  element: {
    countEntries: (tensor) => tensor.numel,
    computeNorms: (tensors) => flattenTensors(tensors.map((tensor) => tensor.abs())),
    sliceMask: (mask, start, tensor) => mask.narrow(0, start, tensor.numel).reshape(...tensor.shape),
  },
};

/** Eq. 4: |scale * ||g|| / ||m|| - 1| with scale = 1 - beta1; 1 if there is no average yet. */
export function computeSecondOrderRisks(gradientNorms: Tensor, momentNorms: Tensor, scale: number): Tensor {
  return where(momentNorms.eq(0), onesLike(momentNorms), gradientNorms.mul(scale).div(momentNorms).sub(1).abs());
}
