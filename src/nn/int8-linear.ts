import { hasOperator, noGrad, operator, scope, type Tensor, zeros } from "../tensor/index.js";

const int8LinearName = "temper::int8_linear";
type Int8Linear = (input: Tensor, packed: Tensor, scales: Tensor, bias: Tensor | null, gelu: boolean) => Tensor;
const int8LinearOp = operator<Int8Linear>(int8LinearName);
type Int8LinearNorm = (
  ...args: [
    input: Tensor,
    packed: Tensor,
    scales: Tensor,
    bias: Tensor,
    residual: Tensor,
    ...norm: [Tensor, Tensor, number],
  ]
) => Tensor;
const int8LinearNormOp = operator<Int8LinearNorm>("temper::int8_linear_norm");
const packName = "onednn::qlinear_prepack";
const packOp = operator<(levels: Tensor, inputShape: readonly number[]) => Tensor>(packName);
const roundOp = operator<(self: Tensor) => Tensor>("round");

/** The number of rows that packed weights are optimized for. */
const expectedRows = 2048;

/** Levels from -127 to 127. */
const maxLevel = 127;

/** The weight of a dense layer in 8 bits. */
export interface QuantizedWeight {
  /** The levels in oneDNN's layout. */
  readonly packed: Tensor;
  /** The size of one level: [output]. */
  readonly scales: Tensor;
}

let supported: boolean | undefined;

/** Whether this libtorch multiplies in 8 bits on this processor. */
export function canQuantize(): boolean {
  supported ??= hasOperator(int8LinearName) && hasOperator(packName) && isQuantizationSupported();
  return supported;
}

function isQuantizationSupported(): boolean {
  try {
    scope(() =>
      noGrad(() => {
        const { packed, scales } = quantizeWeight(zeros([8, 8]));
        int8Dense(zeros([1, 8]), packed, scales, null);
      }),
    );
    return true;
  } catch {
    return false;
  }
}

/** Rounds each row of a weight to 255 levels of its own size. */
export function quantizeWeight(weight: Tensor): QuantizedWeight {
  // The limit prevents a division by zero if a row has only zeros.
  const scales = weight.abs().amax([1]).div(maxLevel).clamp(1e-30);
  const levels = roundOp(weight.div(scales.unsqueeze(1))).to("int8");
  return { packed: packOp(levels, [expectedRows, weight.size(1)]), scales };
}

/**
 * x Wᵀ + b with a quantized weight, optionally followed by GELU. Each row of x is rounded to 127
 * levels of its own size, so that the result of a text does not depend on the other texts of a
 * batch.
 */
export function int8Dense(
  input: Tensor,
  packed: Tensor,
  scales: Tensor,
  bias: Tensor | null,
  activation?: "gelu",
): Tensor {
  return int8LinearOp(input, packed, scales, bias, activation === "gelu");
}

/** LayerNorm(residual + x Wᵀ + b) with a quantized weight, in one pass over the product. */
export function int8DenseResidualNorm(
  input: Tensor,
  dense: QuantizedWeight & { readonly bias: Tensor },
  residual: Tensor,
  norm: { readonly weight: Tensor; readonly bias: Tensor; readonly epsilon: number },
): Tensor {
  const { packed, scales, bias } = dense;
  return int8LinearNormOp(input, packed, scales, bias, residual, norm.weight, norm.bias, norm.epsilon);
}
