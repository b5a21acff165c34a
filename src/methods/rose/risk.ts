import { cat, foreachNorm, onesLike, stack, type Tensor, where } from "../../tensor/index.js";

/**
 * What has one risk and one mask value: a parameter tensor (the i-th parameter of eq. 2 to 5, and the released code's), or every
 * element by itself. Risks and masks of all eligible tensors lie in one vector, in the tensors' order.
 */
export interface Granularity {
  /** How many entries of the vector belong to a tensor. */
  countEntries(tensor: Tensor): number;
  /** The norm of each entry: [n]. */
  computeNorms(tensors: readonly Tensor[]): Tensor;
  /** The part of a mask that belongs to a tensor, in a shape that multiplies it. */
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
    computeNorms: (tensors) =>
      cat(
        tensors.map((tensor) => tensor.abs().reshape(-1)),
        0,
      ),
    sliceMask: (mask, start, tensor) => mask.narrow(0, start, tensor.numel).reshape(...tensor.shape),
  },
};

/**
 * |scale * ||g|| / ||m|| - 1|: how far a gradient steps out of its moving average (eq. 4, with scale = 1 - beta1). Where there is
 * no average yet, 1.
 */
export function computeSecondOrderRisks(gradients: Tensor, moments: Tensor, scale: number): Tensor {
  return where(moments.eq(0), onesLike(moments), gradients.mul(scale).div(moments).sub(1).abs());
}
