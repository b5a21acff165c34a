import { hasOperator, noGrad, operator, scope, type Tensor, zeros } from "../tensor/index.js";

type PackedLinear = (
  input: Tensor,
  packed: Tensor,
  bias: Tensor,
  after: string,
  scalars: never[],
  algorithm: string,
) => Tensor;
const packedLinearName = "mkldnn::_linear_pointwise";
const packedLinearOp = operator<PackedLinear>(packedLinearName);
const packWeightName = "mkldnn::_reorder_linear_weight";
const packWeightOp = operator<(weight: Tensor, rows: number) => Tensor>(packWeightName);

/** Rows that packed weights are laid out for; with others they are as right, and hardly slower. */
const defaultRows = 2048;

let packingSupported: boolean | undefined;

/** Whether this libtorch packs weights: it has the operators, and was built with oneDNN for this processor. */
export function canPack(): boolean {
  packingSupported ??= hasOperator(packedLinearName) && hasOperator(packWeightName) && isPackingSupported();
  return packingSupported;
}

function isPackingSupported(): boolean {
  try {
    scope(() => void noGrad(() => packedDense(zeros([1, 8]), packWeight(zeros([8, 8])), zeros([8]))));
    return true;
  } catch {
    return false;
  }
}

/**
 * A dense layer's weight in the layout that oneDNN multiplies in, laid out once instead of at every product: an eighth of the time on
 * a CPU. It is good for nothing but `packedDense`, and knows no gradients.
 */
export function packWeight(weight: Tensor): Tensor {
  return packWeightOp(weight, defaultRows);
}

/** x W^T + b, and GELU over it while it is still in the cache. */
export function packedDense(input: Tensor, packed: Tensor, bias: Tensor, activation?: "gelu" | "gelu_new"): Tensor {
  if (!activation) return packedLinearOp(input, packed, bias, "none", [], "");
  return packedLinearOp(input, packed, bias, "gelu", [], activation === "gelu" ? "none" : "tanh");
}
