import { operator } from "./operator.js";
import type { Tensor } from "./tensor.js";

type OptionalTensor = Tensor | null;
type TensorList = readonly Tensor[];

// The operators that have no natural first tensor, one line each, under libtorch's names.
export const linear = operator<(input: Tensor, weight: Tensor, bias: OptionalTensor) => Tensor>("linear");
export const embedding = operator<(weight: Tensor, indices: Tensor) => Tensor>("embedding");
export const layerNormOp =
  operator<
    (input: Tensor, shape: readonly number[], weight: OptionalTensor, bias: OptionalTensor, epsilon: number) => Tensor
  >("layer_norm");
export const dropoutOp = operator<(input: Tensor, p: number, training: boolean) => Tensor>("dropout");
export const gelu = operator<(input: Tensor, approximate: "none" | "tanh") => Tensor>("gelu");
export const scaledDotProductAttentionOp =
  operator<
    (query: Tensor, key: Tensor, value: Tensor, mask: OptionalTensor, dropout: number, causal: boolean) => Tensor
  >("scaled_dot_product_attention");
export const cat = operator<(tensors: TensorList, dim: number) => Tensor>("cat");
export const stack = operator<(tensors: TensorList, dim: number) => Tensor>("stack");
export const where = operator<(condition: Tensor, yes: Tensor, no: Tensor) => Tensor>("where", "self");
export const minimum = operator<(a: Tensor, b: Tensor) => Tensor>("minimum");
export const maximum = operator<(a: Tensor, b: Tensor) => Tensor>("maximum");
export const lerp = operator<(start: Tensor, end: Tensor, weight: Tensor) => Tensor>("lerp", "Tensor");
export const addcmul = operator<(self: Tensor, a: Tensor, b: Tensor, value: number) => Tensor>("addcmul");
export const oneHot = operator<(indices: Tensor, classes: number) => Tensor>("one_hot");
export const kthvalue = operator<(self: Tensor, k: number, dim: number) => [Tensor, Tensor]>("kthvalue");
export const sort = operator<(self: Tensor, dim: number, descending: boolean) => [Tensor, Tensor]>("sort");
export const topk = operator<(self: Tensor, k: number, dim: number) => [Tensor, Tensor]>("topk");
export const quantile = operator<(self: Tensor, p: number) => Tensor>("quantile", "scalar");
export const einsum = operator<(equation: string, tensors: TensorList) => Tensor>("einsum");
export const crossEntropyLoss =
  operator<
    (
      logits: Tensor,
      target: Tensor,
      weight: OptionalTensor,
      reduction: 0 | 1 | 2,
      ignore: number,
      smoothing: number,
    ) => Tensor
  >("cross_entropy_loss");
export const mseLoss = operator<(input: Tensor, target: Tensor, reduction: 0 | 1 | 2) => Tensor>("mse_loss");
export const klDiv =
  operator<(input: Tensor, target: Tensor, reduction: 0 | 1 | 2, logTarget: boolean) => Tensor>("kl_div");
export const bernoulli = operator<(probabilities: Tensor) => Tensor>("bernoulli");
export const bernoulli_ = operator<(self: Tensor, p: number) => void>("bernoulli_", "float");
export const uniform_ = operator<(self: Tensor, from: number, to: number) => void>("uniform_");
export const normal_ = operator<(self: Tensor, mean: number, std: number) => void>("normal_");
export const split = operator<(self: Tensor, size: number, dim: number) => Tensor[]>("split", "Tensor");
export const splitWithSizes =
  operator<(self: Tensor, sizes: readonly number[], dim: number) => Tensor[]>("split_with_sizes");
export const chunk = operator<(self: Tensor, count: number, dim: number) => Tensor[]>("chunk");

// One call over a list of tensors: what an optimiser is made of.
export const foreachAdd_ = operator<(self: TensorList, other: TensorList, factor: number) => void>(
  "_foreach_add_",
  "List",
);
export const foreachAddScalar_ = operator<(self: TensorList, value: number) => void>("_foreach_add_", "Scalar");
export const foreachMulScalar_ = operator<(self: TensorList, value: number) => void>("_foreach_mul_", "Scalar");
export const foreachMul_ = operator<(self: TensorList, other: TensorList) => void>("_foreach_mul_", "List");
export const foreachMul = operator<(self: TensorList, other: TensorList) => Tensor[]>("_foreach_mul", "List");
export const foreachNorm = operator<(self: TensorList, order: number) => Tensor[]>("_foreach_norm", "Scalar");
export const foreachSqrt = operator<(self: TensorList) => Tensor[]>("_foreach_sqrt");
export const foreachAddcmul_ = operator<(self: TensorList, a: TensorList, b: TensorList, value: number) => void>(
  "_foreach_addcmul_",
  "Scalar",
);
