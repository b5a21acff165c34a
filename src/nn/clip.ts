import { foreachNorm, stack, type Tensor } from "../tensor/index.js";
import { scaleAll_ } from "./foreach.js";

/** The L2 norm over all tensors together, as a tensor: nothing waits for the device. */
export function globalNorm(tensors: readonly Tensor[]): Tensor {
  return stack(foreachNorm(tensors, 2), 0).norm();
}

/** Scales the gradients in place so that their global norm is at most `limit`; returns the norm before. */
export function clipGradNorm_(gradients: readonly Tensor[], limit: number): Tensor {
  const norm = globalNorm(gradients);
  // The same guard against division by zero as PyTorch's, so that results compare.
  scaleAll_(gradients, norm.add(1e-6).reciprocal().mul(limit).clamp(null, 1));
  return norm;
}
