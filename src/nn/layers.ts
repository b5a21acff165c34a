import {
  embedding,
  gelu,
  layerNormOp,
  linear,
  operator,
  scaledDotProductAttentionOp,
  type Tensor,
} from "../tensor/index.js";
import { dropout } from "./dropout.js";
import type { ForwardMode } from "./forward-mode.js";
import { biasGelu, denseWithBiasSum, residualNorm } from "./fused-layers.js";
import { findPreparedWeight, preparedDense, preparedDenseNorm, preparedFeedForward } from "./prepared-dense.js";
import { getParameter, type Weights } from "./weights.js";

export const evalMode: ForwardMode = { training: false };
export const trainMode: ForwardMode = { training: true };

/**
 * x Wᵀ + b with the weights `name.weight` and, if there is one, `name.bias`. Inference on a CPU has
 * `name.packed` instead of the weight.
 */
export function dense(weights: Weights, name: string, input: Tensor): Tensor {
  const prepared = findPreparedWeight(weights, name);
  const bias = weights.get(`${name}.bias`) ?? null;
  if (prepared) return preparedDense(prepared, input, bias);
  const weight = getParameter(weights, `${name}.weight`);
  const product = bias && denseWithBiasSum(input, weight, bias);
  // The heads of a model in low precision may be in float32.
  return product ?? linear(input.to(weight.dtype), weight, bias);
}

export function embed(weights: Weights, name: string, ids: Tensor): Tensor {
  return embedding(getParameter(weights, `${name}.weight`), ids);
}

/** Layer normalization of the last dimension with `name.weight` and, if any, `name.bias`. */
export function layerNorm(weights: Weights, name: string, input: Tensor, epsilon: number): Tensor {
  const weight = getParameter(weights, `${name}.weight`);
  return layerNormOp(input, weight.shape, weight, weights.get(`${name}.bias`) ?? null, epsilon);
}

/** The activation functions of the supported encoders. `gelu_new` is GELU's tanh approximation. */
export type Activation = "gelu" | "gelu_new" | "relu" | "silu" | "tanh";

export function activate(input: Tensor, activation: Activation): Tensor {
  if (activation === "relu") return input.relu();
  if (activation === "tanh") return input.tanh();
  if (activation === "silu") return input.mul(input.sigmoid());
  return gelu(input, activation === "gelu" ? "none" : "tanh");
}

/** Applies a dense layer and an activation, in one kernel if the weight is prepared. */
export function denseWithActivation(weights: Weights, name: string, input: Tensor, activation: Activation): Tensor {
  const prepared = findPreparedWeight(weights, name);
  const bias = weights.get(`${name}.bias`);
  if (prepared && activation === "gelu") return preparedDense(prepared, input, bias ?? null, activation);
  const fused =
    bias && !prepared && (activation === "gelu" || activation === "gelu_new")
      ? biasGelu(input, getParameter(weights, `${name}.weight`), bias, activation === "gelu_new")
      : null;
  return fused ?? activate(dense(weights, name, input), activation);
}

interface SublayerOptions {
  readonly p: number;
  readonly epsilon: number;
  readonly mode: ForwardMode;
}

/** LayerNorm(shortcut + dropout(x Wᵀ + b)): the end of a transformer sublayer. */
export function denseResidualNorm(
  weights: Weights,
  denseName: string,
  normName: string,
  input: Tensor,
  shortcut: Tensor,
  { p, epsilon, mode }: SublayerOptions,
): Tensor {
  const [bias, offset] = [weights.get(`${denseName}.bias`), weights.get(`${normName}.bias`)];
  const prepared = findPreparedWeight(weights, denseName);
  if (bias && offset && prepared) {
    const norm = { weight: getParameter(weights, `${normName}.weight`), bias: offset, epsilon };
    return preparedDenseNorm(prepared, input, bias, shortcut, norm);
  }
  if (bias && offset) {
    const product = { weight: getParameter(weights, `${denseName}.weight`), bias };
    const norm = { weight: getParameter(weights, `${normName}.weight`), bias: offset };
    const fused = residualNorm(input, product, shortcut, norm, { p: mode.training ? p : 0, epsilon, mode });
    if (fused) return fused;
  }
  return layerNorm(weights, normName, dropout(dense(weights, denseName, input), p, mode).add(shortcut), epsilon);
}

/** LayerNorm(x + dropout(W₂ activation(W₁ x + b₁) + b₂)), in one kernel if weights are prepared. */
export function feedForward(
  weights: Weights,
  names: { readonly inner: string; readonly outer: string; readonly norm: string },
  input: Tensor,
  activation: Activation,
  options: SublayerOptions,
): Tensor {
  const [inner, outer] = [findPreparedWeight(weights, names.inner), findPreparedWeight(weights, names.outer)];
  const [innerBias, outerBias, offset] = [names.inner, names.outer, names.norm].map((name) =>
    weights.get(`${name}.bias`),
  );
  if (inner && outer && innerBias && outerBias && offset && activation === "gelu" && !options.mode.training) {
    const norm = { weight: getParameter(weights, `${names.norm}.weight`), bias: offset, epsilon: options.epsilon };
    return preparedFeedForward(input, { ...inner, bias: innerBias }, { ...outer, bias: outerBias }, norm);
  }
  const intermediate = denseWithActivation(weights, names.inner, input, activation);
  return denseResidualNorm(weights, names.outer, names.norm, intermediate, input, options);
}

const baddbmmOp =
  operator<(bias: Tensor, query: Tensor, key: Tensor, beta: number, alpha: number) => Tensor>("baddbmm");
const bmmOp = operator<(query: Tensor, key: Tensor) => Tensor>("bmm");

/**
 * Scaled dot-product attention of [batch, head, query, width]. The bias is null or is broadcast to
 * [batch, head, query, key], with a large negative number at padding.
 */
export function scaledDotProductAttention(
  query: Tensor,
  key: Tensor,
  value: Tensor,
  bias: Tensor | null,
  dropoutP: number,
  mode: ForwardMode,
): Tensor {
  const p = mode.training ? dropoutP : 0;
  // With dropout on a CPU, libtorch's kernel is not fused.
  if (p === 0 || query.device !== "cpu") {
    // In bfloat16 on a CPU, the kernel creates an object of oneDNN for each of its many small
    // products, which takes longer than float32.
    const dtype = query.device === "cpu" && query.dtype === "bfloat16" ? "float32" : query.dtype;
    const [q, k, v] = [query, key, value].map((tensor) => tensor.to(dtype)) as [Tensor, Tensor, Tensor];
    return scaledDotProductAttentionOp(q, k, v, bias?.to(dtype) ?? null, p, false).to(query.dtype);
  }
  const [batch, heads, queries, width] = query.shape as [number, number, number, number];
  const keys = key.size(2);
  const flatten = (tensor: Tensor, rows: number): Tensor => tensor.reshape(batch * heads, rows, width);
  const flatQuery = flatten(query, queries);
  const flatKey = flatten(key, keys).t();
  const scale = 1 / Math.sqrt(width);
  const rows = bias?.size(2) ?? 1;
  const scores = bias
    ? baddbmmOp(
        bias
          .to(query.dtype)
          .expand(batch, heads, rows, keys)
          .reshape(batch * heads, rows, keys),
        flatQuery,
        flatKey,
        1,
        scale,
      )
    : bmmOp(flatQuery.mul(scale), flatKey); // [batch * head, query, key]
  const attentionWeights = dropout(scores.softmax(-1), dropoutP, mode);
  return bmmOp(attentionWeights, flatten(value, keys)).reshape(batch, heads, queries, width);
}

const packedAttentionOp =
  operator<
    (
      query: Tensor,
      key: Tensor,
      value: Tensor,
      queryStarts: Tensor,
      keyStarts: Tensor,
      maxQueries: number,
      maxKeys: number,
      dropoutP: number,
    ) => Tensor
  >("temper::packed_attention");

const cpuAttentionOp =
  operator<(query: Tensor, key: Tensor, value: Tensor, queryStarts: Tensor, keyStarts: Tensor) => Tensor>(
    "temper::cpu_attention",
  );

/** Texts that follow each other: where each starts, int32, and the longest length. */
export interface PackedTexts {
  readonly starts: Tensor; // [text + 1]
  readonly maxLength: number;
}

/** Attention within packed texts: text i has the queries from `starts[i]` to `starts[i + 1]`. */
export function packedAttention(
  query: Tensor,
  key: Tensor,
  value: Tensor,
  queries: PackedTexts,
  keys: PackedTexts,
  dropoutP: number,
): Tensor {
  if (query.device === "cpu" && dropoutP === 0) return cpuAttentionOp(query, key, value, queries.starts, keys.starts);
  const lengths = [queries.maxLength, keys.maxLength] as const;
  return packedAttentionOp(query, key, value, queries.starts, keys.starts, ...lengths, dropoutP);
}
