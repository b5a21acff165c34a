import { operator } from "./operator.js";
import type { Tensor } from "./tensor.js";

// Operators without a natural first tensor, under libtorch's names. Names that nn/ uses for a layer
// have the suffix Op here.
/** input · weightᵀ + bias. */
export const linear = operator<(input: Tensor, weight: Tensor, bias: Tensor | null) => Tensor>("linear");
export const embedding = operator<(weight: Tensor, indices: Tensor) => Tensor>("embedding");
export const layerNormOp =
  operator<
    (input: Tensor, shape: readonly number[], weight: Tensor | null, bias: Tensor | null, epsilon: number) => Tensor
  >("layer_norm");
export const dropoutOp = operator<(input: Tensor, p: number, training: boolean) => Tensor>("dropout");
export const gelu = operator<(input: Tensor, approximate: "none" | "tanh") => Tensor>("gelu");
export const scaledDotProductAttentionOp =
  operator<
    (query: Tensor, key: Tensor, value: Tensor, mask: Tensor | null, dropout: number, causal: boolean) => Tensor
  >("scaled_dot_product_attention");
export const cat = operator<(tensors: readonly Tensor[], dim: number) => Tensor>("cat");
export const stack = operator<(tensors: readonly Tensor[], dim: number) => Tensor>("stack");
export const where = operator<(condition: Tensor, yes: Tensor, no: Tensor) => Tensor>("where", "self");
export const minimum = operator<(a: Tensor, b: Tensor) => Tensor>("minimum");
export const maximum = operator<(a: Tensor, b: Tensor) => Tensor>("maximum");
/** start + weight · (end - start). */
export const lerp = operator<(start: Tensor, end: Tensor, weight: Tensor) => Tensor>("lerp", "Tensor");
export const kthvalue = operator<(self: Tensor, k: number, dim: number) => [Tensor, Tensor]>("kthvalue");
export const sort = operator<(self: Tensor, dim: number, descending: boolean) => [Tensor, Tensor]>("sort");
export const topk = operator<(self: Tensor, k: number, dim: number) => [Tensor, Tensor]>("topk");
/** Cross-entropy from logits. Reduction: 0 none, 1 mean, 2 sum. */
export const crossEntropyLoss =
  operator<
    (
      logits: Tensor,
      target: Tensor,
      weight: Tensor | null,
      reduction: 0 | 1 | 2,
      ignoreIndex: number,
      labelSmoothing: number,
    ) => Tensor
  >("cross_entropy_loss");
/** The squared error. Reduction: 0 none, 1 mean, 2 sum. */
export const mseLoss = operator<(input: Tensor, target: Tensor, reduction: 0 | 1 | 2) => Tensor>("mse_loss");
/** Fills a tensor with 1 with probability p and 0 otherwise. */
export const bernoulli_ = operator<(self: Tensor, p: number) => void>("bernoulli_", "float");
export const uniform_ = operator<(self: Tensor, from: number, to: number) => void>("uniform_");
export const normal_ = operator<(self: Tensor, mean: number, std: number) => void>("normal_");
export const splitWithSizes =
  operator<(self: Tensor, sizes: readonly number[], dim: number) => Tensor[]>("split_with_sizes");
export const chunk = operator<(self: Tensor, count: number, dim: number) => Tensor[]>("chunk");

// Operators over a list of tensors.
/** Adds factor · other to each tensor. */
export const foreachAdd_ = operator<(self: readonly Tensor[], other: readonly Tensor[], factor: number) => void>(
  "_foreach_add_",
  "List",
);
export const foreachMulScalar_ = operator<(self: readonly Tensor[], value: number) => void>("_foreach_mul_", "Scalar");
export const foreachMul_ = operator<(self: readonly Tensor[], other: readonly Tensor[]) => void>(
  "_foreach_mul_",
  "List",
);
/** The norm of each tensor, in its dtype or in another one (`dtypeCodes`). */
export const foreachNorm = operator<(self: readonly Tensor[], order: number, dtype?: number) => Tensor[]>(
  "_foreach_norm",
  "Scalar",
);
