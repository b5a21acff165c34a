import { loadKernels, operator, type Tensor } from "../tensor/index.js";
import { drawDropoutSeed, takeDropoutSeed } from "./dropout.js";
import type { ForwardMode } from "./forward-mode.js";

// Layers whose element-wise work runs in one kernel per direction (native/gpu/kernels). Each function
// returns null if there is no kernel for its device, dtype or width. The caller then uses a chain
// of libtorch's operators.

const residualNormOp =
  operator<
    (
      input: Tensor,
      bias: Tensor,
      residual: Tensor,
      weight: Tensor,
      offset: Tensor,
      seed: Tensor | null,
      p: number,
      epsilon: number,
    ) => Tensor
  >("temper::residual_norm");
type EmbeddingArguments = [
  words: Tensor,
  positions: Tensor,
  types: Tensor,
  weight: Tensor,
  offset: Tensor,
  ids: Tensor,
  typeIds: Tensor | null,
];
type PositionArguments = [epsilon: number, firstPosition: number, length: number];
const embeddingNormOp =
  operator<
    (
      ...args: [
        ...EmbeddingArguments,
        indices: Tensor | null,
        positionIds: Tensor | null,
        seed: Tensor | null,
        p: number,
        ...PositionArguments,
      ]
    ) => Tensor
  >("temper::embedding_norm");
const cpuEmbeddingNormOp =
  operator<(...args: [...EmbeddingArguments, indices: Tensor, ...PositionArguments]) => Tensor>(
    "temper::cpu_embedding_norm",
  );
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
  { p, epsilon, mode }: { readonly p: number; readonly epsilon: number; readonly mode: ForwardMode },
): Tensor | null {
  const { dtype, device } = input;
  const width = norm.weight.size(0);
  if (device === "cpu" || width % normWidth.multiple !== 0 || width > normWidth.max || p >= 1) return null;
  if (residual.dtype !== dtype || norm.weight.dtype !== dtype || dense.bias.dtype !== dtype) return null;
  if (!loadKernels("residual-norm", width, dtype, device) || !loadKernels("column-sum", width, dtype, device))
    return null;
  const seed = p > 0 ? takeDropoutSeed(device, mode) : null;
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
  /** Positions, each of as many neighboring tokens; null: the places in the texts. */
  readonly positionIds?: Tensor | null;
}

/** dropout(LayerNorm(word + position + type embedding)): [token, hidden]. */
export function embeddingNorm(
  tables: { readonly words: Tensor; readonly positions: Tensor; readonly types: Tensor },
  norm: { readonly weight: Tensor; readonly bias: Tensor },
  { ids, typeIds, indices, positionIds = null }: EmbeddedTokens,
  options: { readonly p: number; readonly epsilon: number; readonly firstPosition: number },
): Tensor | null {
  const { words, positions, types } = tables;
  const { dtype, device } = words;
  const width = norm.weight.size(0);
  const { p, epsilon, firstPosition } = options;
  const all = [words, positions, types, norm.weight, norm.bias] as const;
  if (all.some((tensor) => tensor.dtype !== dtype || tensor.size(-1) !== width)) return null;
  const [flatIds, flatTypes] = [ids.reshape(-1), typeIds?.reshape(-1) ?? null];
  // On a CPU, only texts without padding are embedded in one pass: classifiers have them.
  if (device === "cpu") {
    if (p > 0 || !indices) return null;
    return cpuEmbeddingNormOp(...all, flatIds, flatTypes, indices, epsilon, firstPosition, ids.size(-1));
  }
  if (width % normWidth.multiple !== 0 || width > normWidth.max || p >= 1) return null;
  if (!loadKernels("embedding-norm", width, dtype, device) || !loadKernels("column-sum", width, dtype, device))
    return null;
  const seed = p > 0 ? drawDropoutSeed(device) : null;
  return embeddingNormOp(
    ...([...all, flatIds, flatTypes] as const),
    ...([indices, positionIds?.reshape(-1) ?? null, seed, p, epsilon, firstPosition, ids.size(-1)] as const),
  );
}

/** GELU(x Wᵀ + b). */
export function biasGelu(input: Tensor, weight: Tensor, bias: Tensor, tanh: boolean): Tensor | null {
  const { dtype, device } = input;
  const width = bias.size(0);
  if (device === "cpu" || width % 4 !== 0 || bias.dtype !== dtype) return null;
  const file = tanh ? "activation-tanh" : "activation";
  if (!loadKernels(file, width, dtype, device) || !loadKernels("column-sum", width, dtype, device)) return null;
  return biasGeluOp(matmulOp(input, weight, null), bias, tanh);
}

const shortAttentionOp =
  operator<
    (
      projections: Tensor,
      starts: Tensor | null,
      outputStarts: Tensor | null,
      heads: number,
      length: number,
      outputs: number,
      seed: Tensor | null,
      p: number,
    ) => Tensor
  >("temper::short_attention");

/** Loads the kernel of `shortAttention`. Returns false if there is none. */
export function canAttendShort({ dtype, device }: Tensor, width: number, length: number, p: number): boolean {
  if (dtype !== "bfloat16" || (width !== 32 && width !== 64) || length > 128 || p >= 1) return false;
  const keys = length <= 64 ? 64 : 128;
  // As in native/gpu/attention.cc: about 107 KiB for 128 tokens, more than some GPUs have.
  const sharedBytes = keys * (4 * (width + 8) * 2 + (keys + 8) * 2 + 2 * 4);
  return loadKernels(`attention-${keys}`, width, dtype, device, sharedBytes);
}

/** Attention within texts of at most 128 tokens: [token, 3 * hidden] -> [output, hidden]. */
export function shortAttention(
  projections: Tensor,
  {
    starts,
    length,
    outputs,
    outputStarts,
  }: {
    /** The start of each text, and the end: int32 [text + 1]. Null: texts of the same length. */
    readonly starts: Tensor | null;
    /** The length of the texts, or at least that of the longest one. */
    readonly length: number;
    /** If positive, only the first tokens of so many texts have an output. */
    readonly outputs: number;
    /** The output of the first token of each text: int32 [text + 1]. Null: in order. */
    readonly outputStarts: Tensor | null;
  },
  heads: number,
  p: number,
  mode: ForwardMode,
): Tensor {
  const seed = p > 0 ? takeDropoutSeed(projections.device, mode) : null;
  return shortAttentionOp(projections, starts, outputStarts, heads, length, outputs, seed, p);
}

const mixEmbeddingsOp =
  operator<(text: Tensor, candidates: Tensor, weights: Tensor, index: Tensor) => Tensor>("temper::mix_embeddings");

/**
 * Selects rows of [text, mixtures] by index: text [row, hidden], candidates
 * [word, candidate, hidden], mixture weights [word, candidate]. A row is selected at most once.
 */
export function selectMixtures(text: Tensor, candidates: Tensor, weights: Tensor, index: Tensor): Tensor | null {
  const { dtype, device } = text;
  const width = text.size(1);
  if (device === "cpu" || width % normWidth.multiple !== 0 || width > normWidth.max) return null;
  if (candidates.dtype !== dtype || weights.dtype !== "float32" || !loadKernels("mixture", width, dtype, device))
    return null;
  return mixEmbeddingsOp(text, candidates, weights, index);
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
  return loadKernels("column-sum", width, dtype, device) ? linearOp(input, weight, bias) : null;
}
