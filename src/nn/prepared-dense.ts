import { cat, hasOperator, noGrad, operator, scope, type Tensor, zeros } from "../tensor/index.js";
import type { Weights } from "./layers.js";

/** How the dense layers of an encoder multiply on a CPU if no gradients are computed. */
export type CpuPrecision = "float32" | "bfloat16" | "int8";

/** The weight of a dense layer in the layout that the kernel reads. */
export interface PreparedWeight {
  /**
   * [output / 64, input / group, 64, group] for processors that multiply blocks (AMX): a group of
   * numbers is multiplied in one step. Otherwise it is in oneDNN's layout.
   */
  readonly blocks: Tensor;
  /** In 8 bits: the size of one level of each output, and the sum of its weights. */
  readonly scales?: Tensor | undefined;
  readonly sums?: Tensor | undefined;
}

const denseName = "temper::dense";
type Dense = (
  input: Tensor,
  ...rest: [blocks: Tensor, scales: Tensor | null, sums: Tensor | null, bias: Tensor | null, gelu: boolean]
) => Tensor;
const denseOp = operator<Dense>(denseName);
type DenseNorm = (
  input: Tensor,
  ...rest: [
    ...[blocks: Tensor, scales: Tensor | null, sums: Tensor | null, bias: Tensor, residual: Tensor],
    ...norm: [weight: Tensor, offset: Tensor, epsilon: number],
  ]
) => Tensor;
const denseNormOp = operator<DenseNorm>("temper::dense_norm");
const packOp = operator<(weight: Tensor, rows: number) => Tensor>("mkldnn::_reorder_linear_weight");
const packLevelsOp = operator<(levels: Tensor, inputShape: readonly number[]) => Tensor>("onednn::qlinear_prepack");
const roundOp = operator<(self: Tensor) => Tensor>("round");

const blockColumns = 64;
/** The numbers per group, and the multiple of the inputs that blocks need. */
const layouts = {
  float32: { group: 1, multiple: 1 },
  bfloat16: { group: 2, multiple: 32 },
  int8: { group: 4, multiple: 64 },
};
/** The number of rows that oneDNN's layout is optimized for. */
const expectedRows = 2048;
/** Levels from -127 to 127. */
const maxLevel = 127;

const supported = new Map<string, boolean>();

/** Whether this libtorch has kernels for a precision, and this processor the instructions. */
export function canPrepare(precision: CpuPrecision): boolean {
  return supports(precision, pack);
}

type Prepare = (weight: Tensor, precision: CpuPrecision) => PreparedWeight;

/** Whether products work with weights that are prepared in this way. */
export function supports(precision: CpuPrecision, prepare: Prepare): boolean {
  const key = `${precision} ${prepare.name}`;
  const known = supported.get(key);
  if (known !== undefined) return known;
  const found = hasOperator(denseName) && canMultiply(precision, prepare);
  supported.set(key, found);
  return found;
}

function canMultiply(precision: CpuPrecision, prepare: Prepare): boolean {
  try {
    scope(() =>
      noGrad(() => {
        const input = zeros([1, blockColumns], { dtype: precision === "bfloat16" ? precision : "float32" });
        preparedDense(prepare(zeros([blockColumns, blockColumns]), precision), input, null);
      }),
    );
    return true;
  } catch {
    return false;
  }
}

/**
 * Prepares the weight of a dense layer. In float32, oneDNN's layer is faster than blocks.
 */
export function prepareWeight(weight: Tensor, precision: CpuPrecision): PreparedWeight {
  const hasBlocks =
    precision !== "float32" && weight.size(1) % layouts[precision].multiple === 0 && supports(precision, prepareBlocks);
  return (hasBlocks ? prepareBlocks : pack)(weight, precision);
}

/** Prepares a weight for oneDNN's layer. */
export function pack(weight: Tensor, precision: CpuPrecision): PreparedWeight {
  if (precision !== "int8") return { blocks: packOp(weight.to(precision), expectedRows) };
  const { levels, ...rest } = quantize(weight);
  return { blocks: packLevelsOp(levels, [expectedRows, weight.size(1)]), ...rest };
}

/** Prepares a weight for products of blocks. */
export function prepareBlocks(weight: Tensor, precision: CpuPrecision): PreparedWeight {
  if (precision !== "int8") return { blocks: toBlocks(weight.to(precision), precision) };
  const { levels, ...rest } = quantize(weight);
  return { blocks: toBlocks(levels, precision), ...rest };
}

function toBlocks(weight: Tensor, precision: CpuPrecision): Tensor {
  const [outputs, inputs] = weight.shape as [number, number];
  const missing = -outputs & (blockColumns - 1);
  const padded = missing === 0 ? weight : cat([weight, zeros([missing, inputs], { dtype: weight.dtype })], 0);
  const { group } = layouts[precision];
  return padded
    .reshape(-1, blockColumns, inputs / group, group)
    .transpose(1, 2)
    .contiguous();
}

/** Rounds each row of a weight to 255 levels of its own size. */
function quantize(weight: Tensor): { levels: Tensor; scales: Tensor; sums: Tensor } {
  // The limit prevents a division by zero if a row has only zeros.
  const scales = weight.abs().amax([1]).div(maxLevel).clamp(1e-30);
  const levels = roundOp(weight.div(scales.unsqueeze(1)));
  return { levels: levels.to("int8"), scales, sums: levels.sum([1]).mul(scales) };
}

/** Returns the prepared weight of a dense layer, if there is one. */
export function findPreparedWeight(weights: Weights, name: string): PreparedWeight | null {
  const blocks = weights.get(`${name}.blocks`);
  if (!blocks) return null;
  return { blocks, scales: weights.get(`${name}.scales`), sums: weights.get(`${name}.sums`) };
}

/**
 * x Wᵀ + b with a prepared weight, optionally followed by GELU. In 8 bits, each row of x is rounded
 * to levels of its own size, so that the result of a text does not depend on the other texts of a
 * batch.
 */
export function preparedDense(
  { blocks, scales, sums }: PreparedWeight,
  input: Tensor,
  bias: Tensor | null,
  activation?: "gelu",
): Tensor {
  return denseOp(input, blocks, scales ?? null, sums ?? null, bias, activation === "gelu");
}

/** LayerNorm(residual + x Wᵀ + b) with a prepared weight. */
export function preparedDenseNorm(
  { blocks, scales, sums }: PreparedWeight,
  input: Tensor,
  bias: Tensor,
  residual: Tensor,
  norm: { readonly weight: Tensor; readonly bias: Tensor; readonly epsilon: number },
): Tensor {
  const { weight, bias: offset, epsilon } = norm;
  return denseNormOp(input, blocks, scales ?? null, sums ?? null, bias, residual, weight, offset, epsilon);
}
