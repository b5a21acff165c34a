import { dropoutMask, dropoutOp, embedding, gelu, layerNormOp, linear, type Tensor } from "../tensor/index.js";
import { packedDense } from "./packed-linear.js";
import { getParameter, type Weights } from "./weights.js";

/** How a pass is run: dropout on in training. */
export interface ForwardMode {
  readonly training: boolean;
}

export const evalMode: ForwardMode = { training: false };
export const trainMode: ForwardMode = { training: true };

/** x W^T + b, with the weights `name.weight` (or `name.packed`) and `name.bias`. */
export function dense(weights: Weights, name: string, input: Tensor): Tensor {
  const packed = weights.get(`${name}.packed`);
  if (packed) return packedDense(input, packed, getParameter(weights, `${name}.bias`));
  return linear(input, getParameter(weights, `${name}.weight`), getParameter(weights, `${name}.bias`));
}

/** Rows of `name.weight`. */
export function embed(weights: Weights, name: string, ids: Tensor): Tensor {
  return embedding(getParameter(weights, `${name}.weight`), ids);
}

/** Normalises the last dimension, with the weights `name.weight` and `name.bias`. */
export function layerNorm(weights: Weights, name: string, input: Tensor, epsilon: number): Tensor {
  const weight = getParameter(weights, `${name}.weight`);
  return layerNormOp(input, weight.shape, weight, getParameter(weights, `${name}.bias`), epsilon);
}

/** Zeroes a share of the entries and scales the rest up; the input itself outside training. */
export function dropout(input: Tensor, p: number, mode: ForwardMode): Tensor {
  if (!mode.training || p === 0) return input;
  const { device, dtype: type } = input;
  // libtorch's own draws with one thread on the CPU; ours gives the same on any number of them.
  if (device === "cpu" && (type === "float32" || type === "float64") && p < 1)
    return input.mul(dropoutMask(input.shape, p, type));
  return dropoutOp(input, p, true);
}

export type Activation = "gelu" | "gelu_new" | "relu" | "silu" | "tanh";

export function activate(input: Tensor, activation: Activation): Tensor {
  if (activation === "relu") return input.relu();
  if (activation === "tanh") return input.tanh();
  if (activation === "silu") return input.mul(input.sigmoid());
  return gelu(input, activation === "gelu" ? "none" : "tanh");
}

/** A dense layer and its activation: in one where its weight is packed. */
export function denseWithActivation(weights: Weights, name: string, input: Tensor, activation: Activation): Tensor {
  const packed = weights.get(`${name}.packed`);
  if (packed && (activation === "gelu" || activation === "gelu_new"))
    return packedDense(input, packed, getParameter(weights, `${name}.bias`), activation);
  return activate(dense(weights, name, input), activation);
}
