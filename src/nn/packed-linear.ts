import { type DType, hasOperator, noGrad, operator, scope, type Tensor, zeros } from "../tensor/index.js";

type PackedLinear = (
  input: Tensor,
  packed: Tensor,
  bias: Tensor | null,
  activation: string,
  scalars: never[],
  algorithm: string,
) => Tensor;
const packedLinearName = "mkldnn::_linear_pointwise";
const packedLinearOp = operator<PackedLinear>(packedLinearName);
const packWeightName = "mkldnn::_reorder_linear_weight";
const packWeightOp = operator<(weight: Tensor, rows: number) => Tensor>(packWeightName);

/** The number of rows that packed weights are optimized for. Other numbers are hardly slower. */
const expectedRows = 2048;

const packingSupported = new Map<DType, boolean>();

/**
 * Whether this libtorch can pack weights: it has the operators, and oneDNN supports the dtype on
 * this processor.
 */
export function canPack(dtype: DType = "float32"): boolean {
  const known = packingSupported.get(dtype);
  if (known !== undefined) return known;
  const supported = hasOperator(packedLinearName) && hasOperator(packWeightName) && isPackingSupported(dtype);
  packingSupported.set(dtype, supported);
  return supported;
}

function isPackingSupported(dtype: DType): boolean {
  const create = (...shape: number[]): Tensor => zeros(shape, { dtype });
  try {
    scope(() => void noGrad(() => packedDense(create(1, 8), packWeight(create(8, 8)), create(8))));
    return true;
  } catch {
    return false;
  }
}

/**
 * Converts the weight of a dense layer to oneDNN's layout once instead of at every product, which
 * saves an eighth of the time on a CPU. Only `packedDense` can use the result. It has no gradients.
 */
export function packWeight(weight: Tensor): Tensor {
  return packWeightOp(weight, expectedRows);
}

/** x Wᵀ + b, optionally followed by GELU in the same kernel. */
export function packedDense(
  input: Tensor,
  packed: Tensor,
  bias: Tensor | null,
  activation?: "gelu" | "gelu_new",
): Tensor {
  if (!activation) return packedLinearOp(input, packed, bias, "none", [], "");
  return packedLinearOp(input, packed, bias, "gelu", [], activation === "gelu" ? "none" : "tanh");
}
