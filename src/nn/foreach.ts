import { dtypeCodes, foreachNorm, noGrad, operator, scope, stack, type Tensor } from "../tensor/index.js";

const foreachMulTensorOp = operator<(self: readonly Tensor[], factor: Tensor) => void>("_foreach_mul_", "Tensor");

const foreachCopyOp = operator<(targets: readonly Tensor[], sources: readonly Tensor[]) => void>("_foreach_copy_");

const aminmaxOp = operator<(self: Tensor) => [Tensor, Tensor]>("aminmax");

/** Returns true if no tensor contains NaN or infinity. Both are always an extreme value of their tensor. */
export function areFinite(tensors: readonly Tensor[]): boolean {
  const extremes = scope(() =>
    noGrad(() => {
      const pairs = tensors.filter(({ numel }) => numel > 0).flatMap((tensor) => aminmaxOp(tensor));
      return pairs.length === 0 ? [] : [...stack(pairs, 0).toFloat32Array()];
    }),
  );
  return extremes.every(Number.isFinite);
}

export function copyAll_(targets: readonly Tensor[], sources: readonly Tensor[]): void {
  if (targets.length > 0) foreachCopyOp(targets, sources);
}

/** Computes the L2 norm over all tensors in float32, as a tensor: nothing waits for the GPU. */
export function globalNorm(tensors: readonly Tensor[]): Tensor {
  const half = tensors.filter(({ dtype }) => dtype === "bfloat16");
  if (half.length === 0) return stack(foreachNorm(tensors, 2), 0).norm();
  // libtorch is fast only for lists of one dtype.
  const rest = tensors.filter(({ dtype }) => dtype !== "bfloat16");
  const norms = [...foreachNorm(half, 2, dtypeCodes.float32), ...(rest.length > 0 ? foreachNorm(rest, 2) : [])];
  return stack(norms, 0).norm();
}

/** The factor that reduces gradients of this global norm to the maximum; 1 if they are smaller. */
export function computeClipFactor(norm: Tensor, maxNorm: number): Tensor {
  // PyTorch adds the same constant against division by zero, so the results match.
  return norm.add(1e-6).reciprocal().mul(maxNorm).clamp(null, 1);
}

/** Scales gradients in place to a global norm of at most `maxNorm`. Returns the norm before. */
export function clipGradNorm_(gradients: readonly Tensor[], maxNorm: number): Tensor {
  const norm = globalNorm(gradients);
  const factor = computeClipFactor(norm, maxNorm);
  foreachMulTensorOp(gradients, factor);
  return norm;
}
