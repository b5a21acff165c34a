import { hasOperator, operator, type Tensor } from "../tensor/index.js";

const foreachMulTensorOp = operator<(self: readonly Tensor[], factor: Tensor) => void>("_foreach_mul_", "Tensor");

/** Multiplies every tensor by a one-element tensor, in one call where this libtorch has it. */
export function scaleAll_(tensors: readonly Tensor[], factor: Tensor): void {
  if (hasOperator("_foreach_mul_", "Tensor")) foreachMulTensorOp(tensors, factor);
  else for (const tensor of tensors) tensor.mul_(factor);
}

const foreachCopyOp = operator<(targets: readonly Tensor[], sources: readonly Tensor[]) => void>("_foreach_copy_");

/** Copies every source into its target, whatever their types, in one call where this libtorch has it. */
export function copyAll_(targets: readonly Tensor[], sources: readonly Tensor[]): void {
  if (targets.length === 0) return;
  if (hasOperator("_foreach_copy_")) foreachCopyOp(targets, sources);
  else for (const [i, target] of targets.entries()) target.copy_(sources[i] as Tensor);
}
