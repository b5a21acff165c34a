import { operator } from "./operator.js";
import type { Tensor } from "./tensor.js";

type OptionalTensor = Tensor | null;
type TensorList = readonly Tensor[];

// Operators without a natural first tensor, under libtorch's names. Names that nn/ uses for a layer
// have the suffix Op here.
/** input · weightᵀ + bias. */
export const linear = operator<(input: Tensor, weight: Tensor, bias: OptionalTensor) => Tensor>("linear");
export const embedding = operator<(weight: Tensor, indices: Tensor) => Tensor>("embedding");
/** Layer normalization over the last dimensions. */
export const layerNormOp =
  operator<
    (input: Tensor, shape: readonly number[], weight: OptionalTensor, bias: OptionalTensor, epsilon: number) => Tensor
  >("layer_norm");
/** libtorch's dropout. */
export const dropoutOp = operator<(input: Tensor, p: number, training: boolean) => Tensor>("dropout");
/** The GELU activation, exact or with the tanh approximation. */
export const gelu = operator<(input: Tensor, approximate: "none" | "tanh") => Tensor>("gelu");
/** libtorch's fused attention. */
export const scaledDotProductAttentionOp =
  operator<
    (query: Tensor, key: Tensor, value: Tensor, mask: OptionalTensor, dropout: number, causal: boolean) => Tensor
  >("scaled_dot_product_attention");
/** Concatenates tensors along a dimension. */
export const cat = operator<(tensors: TensorList, dim: number) => Tensor>("cat");
export const stack = operator<(tensors: TensorList, dim: number) => Tensor>("stack");
/** Selects elements from two tensors by a condition. */
export const where = operator<(condition: Tensor, yes: Tensor, no: Tensor) => Tensor>("where", "self");
export const minimum = operator<(a: Tensor, b: Tensor) => Tensor>("minimum");
export const maximum = operator<(a: Tensor, b: Tensor) => Tensor>("maximum");
/** start + weight · (end - start). */
export const lerp = operator<(start: Tensor, end: Tensor, weight: Tensor) => Tensor>("lerp", "Tensor");
/** One-hot vectors of class indices. */
export const oneHot = operator<(indices: Tensor, numClasses: number) => Tensor>("one_hot");
/** The k-th smallest values along a dimension, and their indices. */
export const kthvalue = operator<(self: Tensor, k: number, dim: number) => [Tensor, Tensor]>("kthvalue");
/** The sorted values along a dimension, and their indices. */
export const sort = operator<(self: Tensor, dim: number, descending: boolean) => [Tensor, Tensor]>("sort");
/** The k largest values along a dimension, and their indices. */
export const topk = operator<(self: Tensor, k: number, dim: number) => [Tensor, Tensor]>("topk");
/** A sum of products in Einstein notation: `einsum("ij,jk->ik", [a, b])`. */
export const einsum = operator<(equation: string, tensors: TensorList) => Tensor>("einsum");
/** Cross-entropy from logits. Reduction: 0 none, 1 mean, 2 sum. */
export const crossEntropyLoss =
  operator<
    (
      logits: Tensor,
      target: Tensor,
      weight: OptionalTensor,
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
/** Splits a tensor along a dimension into parts of the given sizes. */
export const splitWithSizes =
  operator<(self: Tensor, sizes: readonly number[], dim: number) => Tensor[]>("split_with_sizes");
/** Splits a tensor along a dimension into equal parts. */
export const chunk = operator<(self: Tensor, count: number, dim: number) => Tensor[]>("chunk");

// Operators over a list of tensors.
/** Adds factor · other to each tensor. */
export const foreachAdd_ = operator<(self: TensorList, other: TensorList, factor: number) => void>(
  "_foreach_add_",
  "List",
);
/** Multiplies each tensor by a number. */
export const foreachMulScalar_ = operator<(self: TensorList, value: number) => void>("_foreach_mul_", "Scalar");
/** Multiplies each tensor by the tensor at the same index. */
export const foreachMul_ = operator<(self: TensorList, other: TensorList) => void>("_foreach_mul_", "List");
/** The norm of each tensor, in its dtype or in another one (`dtypeCodes`). */
export const foreachNorm = operator<(self: TensorList, order: number, dtype?: number) => Tensor[]>(
  "_foreach_norm",
  "Scalar",
);
