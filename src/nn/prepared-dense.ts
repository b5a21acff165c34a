import { getCpuSupport, getPrecisionVerdict, noGrad, operator, scope, type Tensor, zeros } from "../tensor/index.js";
import type { Weights } from "./weights.js";

/** The precision of an encoder's dense layers on a CPU without gradients. */
export type CpuPrecision = "float32" | "bfloat16" | "int8";

export interface PreparedWeight {
  /** The weight in oneDNN's layout: converting it once saves an eighth of the time. */
  readonly packed: Tensor;
  /** In 8 bits: the size of one level of each output, and the sum of its weights. */
  readonly scales?: Tensor;
  readonly sums?: Tensor;
}

type WeightArguments = [packed: Tensor, scales: Tensor | null, sums: Tensor | null, maxLevel: number];
const denseOp =
  operator<(input: Tensor, ...rest: [...WeightArguments, bias: Tensor | null, gelu: boolean]) => Tensor>(
    "temper::dense",
  );
type NormArguments = [weight: Tensor, offset: Tensor, epsilon: number];
const denseNormOp =
  operator<(input: Tensor, ...rest: [...WeightArguments, bias: Tensor, residual: Tensor, ...NormArguments]) => Tensor>(
    "temper::dense_norm",
  );
type LayerArguments = [packed: Tensor, scales: Tensor | null, sums: Tensor | null, bias: Tensor];
const feedForwardOp =
  operator<
    (input: Tensor, maxLevel: number, ...rest: [...LayerArguments, ...LayerArguments, ...NormArguments]) => Tensor
  >("temper::feed_forward");
const packOp = operator<(weight: Tensor, rows: number) => Tensor>("mkldnn::_reorder_linear_weight");
const packLevelsOp = operator<(levels: Tensor, inputShape: readonly number[]) => Tensor>("onednn::qlinear_prepack");
const roundOp = operator<(self: Tensor) => Tensor>("round");

/** The number of rows that packed weights are optimized for. Other numbers are hardly slower. */
const expectedRows = 2048;
const maxWeightLevel = 127;

let inputLevel: number | undefined;

/** The largest level in 8 bits. Without VNNI, 2 * 127 * 127 is the largest sum that fits. */
export function getMaxInputLevel(): number {
  inputLevel ??= getCpuSupport().int8 ? 255 : 127;
  return inputLevel;
}

const supported = new Map<CpuPrecision, boolean>();

/** Returns true if this libtorch has kernels for a precision, and this processor the instructions. */
export function canPrepare(precision: CpuPrecision): boolean {
  const known = supported.get(precision);
  if (known !== undefined) return known;
  // An illegal instruction ends the process, so the self-test tries low precision in another one.
  const isSafe =
    precision === "float32" || getPrecisionVerdict(precision === "int8" ? "int8" : "bf16").failure === null;
  const found = isSafe && canMultiply(precision);
  supported.set(precision, found);
  return found;
}

function canMultiply(precision: CpuPrecision): boolean {
  try {
    scope(() =>
      noGrad(() => {
        const input = zeros([1, 8], { dtype: precision === "bfloat16" ? precision : "float32" });
        preparedDense(prepareWeight(zeros([8, 8]), precision), input, null);
      }),
    );
    return true;
  } catch {
    return false;
  }
}

/** Prepares the weight of a dense layer. In 8 bits, each output has 255 levels of its own size. */
export function prepareWeight(weight: Tensor, precision: CpuPrecision): PreparedWeight {
  if (precision !== "int8") return { packed: packOp(weight.to(precision), expectedRows) };
  // The limit prevents a division by zero if a row has only zeros.
  const scales = weight.abs().amax([1]).div(maxWeightLevel).clamp(1e-30);
  const levels = roundOp(weight.div(scales.unsqueeze(1)));
  const packed = packLevelsOp(levels.to("int8"), [expectedRows, weight.size(1)]);
  return { packed, scales, sums: levels.sum([1]).mul(scales) };
}

export function findPreparedWeight(weights: Weights, name: string): PreparedWeight | null {
  const packed = weights.get(`${name}.packed`);
  if (!packed) return null;
  const [scales, sums] = [weights.get(`${name}.scales`), weights.get(`${name}.sums`)];
  return scales && sums ? { packed, scales, sums } : { packed };
}

function toArguments({ packed, scales, sums }: PreparedWeight): WeightArguments {
  return [packed, scales ?? null, sums ?? null, getMaxInputLevel()];
}

/**
 * x Wᵀ + b with a prepared weight, and GELU if wanted. In 8 bits, each row of x is rounded by
 * itself, so that a text does not depend on the others of its batch.
 */
export function preparedDense(weight: PreparedWeight, input: Tensor, bias: Tensor | null, activation?: "gelu"): Tensor {
  return denseOp(input, ...toArguments(weight), bias, activation === "gelu");
}

/** LayerNorm(residual + x Wᵀ + b) with a prepared weight. */
export function preparedDenseNorm(
  weight: PreparedWeight,
  input: Tensor,
  bias: Tensor,
  residual: Tensor,
  norm: { readonly weight: Tensor; readonly bias: Tensor; readonly epsilon: number },
): Tensor {
  return denseNormOp(input, ...toArguments(weight), bias, residual, norm.weight, norm.bias, norm.epsilon);
}

export type PreparedLayer = PreparedWeight & { readonly bias: Tensor };

/** LayerNorm(x + W₂ GELU(W₁ x + b₁) + b₂), in parts that fit in the cache. */
export function preparedFeedForward(
  input: Tensor,
  inner: PreparedLayer,
  outer: PreparedLayer,
  norm: { readonly weight: Tensor; readonly bias: Tensor; readonly epsilon: number },
): Tensor {
  const list = ({ packed, scales, sums, bias }: PreparedLayer): LayerArguments => {
    return [packed, scales ?? null, sums ?? null, bias];
  };
  const { weight, bias: offset, epsilon } = norm;
  return feedForwardOp(input, getMaxInputLevel(), ...list(inner), ...list(outer), weight, offset, epsilon);
}
