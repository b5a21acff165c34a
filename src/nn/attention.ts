import { scaledDotProductAttentionOp as fusedAttention, hasOperator, operator, type Tensor } from "../tensor/index.js";
import { dropout, type ForwardMode } from "./layers.js";

const baddbmmOp =
  operator<(bias: Tensor, query: Tensor, key: Tensor, beta: number, alpha: number) => Tensor>("baddbmm");
const bmmOp = operator<(query: Tensor, key: Tensor) => Tensor>("bmm");

/**
 * Scaled dot-product attention: query [batch, head, query, width], key and value [batch, head, key, width], bias null or
 * [batch, 1, 1, key] with a large negative number at padding.
 *
 * libtorch's fused kernel is used where it is one: on a GPU always, on the CPU where no dropout is asked for (with dropout it falls
 * back to the same plain operators as below, and libtorch 1.13 has none).
 */
export function scaledDotProductAttention(
  query: Tensor,
  key: Tensor,
  value: Tensor,
  bias: Tensor | null,
  dropoutP: number,
  mode: ForwardMode,
): Tensor {
  const dropped = mode.training ? dropoutP : 0;
  const fused = hasOperator("scaled_dot_product_attention") && (dropped === 0 || query.device !== "cpu");
  if (fused) return fusedAttention(query, key, value, bias?.to(query.dtype) ?? null, dropped, false);
  return unfusedAttention(query, key, value, bias, dropoutP, mode);
}

function unfusedAttention(
  query: Tensor,
  key: Tensor,
  value: Tensor,
  bias: Tensor | null,
  dropoutP: number,
  mode: ForwardMode,
): Tensor {
  const [batch, heads, queries, width] = query.shape as [number, number, number, number];
  const keys = key.size(2);
  const flat = (tensor: Tensor, rows: number): Tensor => tensor.reshape(batch * heads, rows, width);
  const flatQuery = flat(query, queries);
  const flatKey = flat(key, keys).t();
  const scale = 1 / Math.sqrt(width);
  const scores = bias
    ? baddbmmOp(bias.expand(batch, heads, 1, keys).reshape(batch * heads, 1, keys), flatQuery, flatKey, 1, scale)
    : bmmOp(flatQuery.mul(scale), flatKey); // [batch * head, query, key]
  const attentionWeights = dropout(scores.softmax(-1), dropoutP, mode);
  return bmmOp(attentionWeights, flat(value, keys)).reshape(batch, heads, queries, width);
}
