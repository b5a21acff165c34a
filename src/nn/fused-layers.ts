import { loadKernels, operator, type Tensor } from "../tensor/index.js";
import { drawDropoutSeed } from "./dropout.js";

// Layers whose element-wise work runs in one kernel per direction (native/kernels). Each function
// returns null if there is no kernel for its device, dtype or width. The caller then uses a chain
// of libtorch's operators.

const residualNormOp =
  operator<
    (
      input: Tensor,
      bias: Tensor | null,
      residual: Tensor | null,
      weight: Tensor,
      offset: Tensor,
      seed: Tensor | null,
      p: number,
      epsilon: number,
    ) => Tensor
  >("temper::residual_norm");
const embeddingNormOp =
  operator<
    (
      words: Tensor,
      positions: Tensor,
      types: Tensor,
      weight: Tensor,
      offset: Tensor,
      ids: Tensor,
      typeIds: Tensor | null,
      indices: Tensor | null,
      seed: Tensor | null,
      p: number,
      epsilon: number,
      firstPosition: number,
      length: number,
    ) => Tensor
  >("temper::embedding_norm");
const biasGeluOp = operator<(input: Tensor, bias: Tensor, tanh: boolean) => Tensor>("temper::bias_gelu");
const linearOp = operator<(input: Tensor, weight: Tensor, bias: Tensor) => Tensor>("temper::linear");
const matmulOp = operator<(input: Tensor, weight: Tensor, bias: null) => Tensor>("linear");

/** A warp handles 128 elements at a time, and keeps a complete row in registers. */
const normWidth = { multiple: 128, max: 2048 };

/** LayerNorm(residual + dropout(x Wᵀ + b)). */
export function residualNorm(
  input: Tensor,
  dense: { readonly weight: Tensor; readonly bias: Tensor },
  residual: Tensor,
  norm: { readonly weight: Tensor; readonly bias: Tensor },
  p: number,
  epsilon: number,
): Tensor | null {
  const { dtype, device } = input;
  const width = norm.weight.size(0);
  if (device === "cpu" || width % normWidth.multiple !== 0 || width > normWidth.max || p >= 1) return null;
  if (residual.dtype !== dtype || norm.weight.dtype !== dtype || dense.bias.dtype !== dtype) return null;
  if (!loadKernels("residual_norm", width, dtype, device) || !loadKernels("column_sum", width, dtype, device))
    return null;
  const seed = p > 0 ? drawDropoutSeed(device) : null;
  const product = matmulOp(input, dense.weight, null);
  return residualNormOp(product, dense.bias, residual, norm.weight, norm.bias, seed, p, epsilon);
}

/** Tokens of a batch [batch, length], and which of them to compute. */
export interface EmbeddedTokens {
  readonly ids: Tensor;
  /** Null: all types are 0. */
  readonly typeIds: Tensor | null;
  /** Rows of the flattened batch; null: all. */
  readonly indices: Tensor | null;
}

/** dropout(LayerNorm(word + position + type embedding)): [token, hidden]. */
export function embeddingNorm(
  tables: { readonly words: Tensor; readonly positions: Tensor; readonly types: Tensor },
  norm: { readonly weight: Tensor; readonly bias: Tensor },
  { ids, typeIds, indices }: EmbeddedTokens,
  options: { readonly p: number; readonly epsilon: number; readonly firstPosition: number },
): Tensor | null {
  const { words, positions, types } = tables;
  const { dtype, device } = words;
  const width = norm.weight.size(0);
  const { p, epsilon, firstPosition } = options;
  if (device === "cpu" || width % normWidth.multiple !== 0 || width > normWidth.max || p >= 1) return null;
  const all = [words, positions, types, norm.weight, norm.bias];
  if (all.some((tensor) => tensor.dtype !== dtype || tensor.size(-1) !== width)) return null;
  if (!loadKernels("embedding_norm", width, dtype, device) || !loadKernels("column_sum", width, dtype, device))
    return null;
  const seed = p > 0 ? drawDropoutSeed(device) : null;
  return embeddingNormOp(
    ...([words, positions, types, norm.weight, norm.bias, ids.reshape(-1)] as const),
    typeIds?.reshape(-1) ?? null,
    ...([indices, seed, p, epsilon, firstPosition, ids.size(-1)] as const),
  );
}

/** GELU(x Wᵀ + b). */
export function biasGelu(input: Tensor, weight: Tensor, bias: Tensor, tanh: boolean): Tensor | null {
  const { dtype, device } = input;
  const width = bias.size(0);
  if (device === "cpu" || width % 4 !== 0 || bias.dtype !== dtype) return null;
  const file = tanh ? "activation-tanh" : "activation";
  if (!loadKernels(file, width, dtype, device) || !loadKernels("column_sum", width, dtype, device)) return null;
  return biasGeluOp(matmulOp(input, weight, null), bias, tanh);
}

/** From this number of rows on, our sum over rows is faster than libtorch's. */
const minRowsForBiasSum = 256;

/** x Wᵀ + b, with our kernel for the gradient of b. */
export function denseWithBiasSum(input: Tensor, weight: Tensor, bias: Tensor): Tensor | null {
  const { dtype, device } = input;
  if (device === "cpu") return null;
  const width = bias.size(0);
  const rows = input.numel / input.size(-1);
  if (rows < minRowsForBiasSum || width % 4 !== 0 || bias.dtype !== dtype) return null;
  return loadKernels("column_sum", width, dtype, device) ? linearOp(input, weight, bias) : null;
}
