import { dropout, dropoutMask, embedding, gelu, layerNorm, linear, type Tensor } from "../tensor/index.js";
import { packedDense } from "./packed.js";
import { parameter, type Weights } from "./weights.js";

/** How a pass is run: dropout on in training. */
export interface Mode {
  readonly training: boolean;
}

export const evaluating: Mode = { training: false };
export const training: Mode = { training: true };

/** x W^T + b, with the weights `name.weight` (or `name.packed`) and `name.bias`. */
export function dense(weights: Weights, name: string, input: Tensor): Tensor {
  const packed = weights.get(`${name}.packed`);
  if (packed) return packedDense(input, packed, parameter(weights, `${name}.bias`));
  return linear(input, parameter(weights, `${name}.weight`), parameter(weights, `${name}.bias`));
}

/** Rows of `name.weight`. */
export function embed(weights: Weights, name: string, ids: Tensor): Tensor {
  return embedding(parameter(weights, `${name}.weight`), ids);
}

/** Normalises the last dimension, with the weights `name.weight` and `name.bias`. */
export function normalize(weights: Weights, name: string, input: Tensor, epsilon: number): Tensor {
  const weight = parameter(weights, `${name}.weight`);
  return layerNorm(input, weight.shape, weight, parameter(weights, `${name}.bias`), epsilon);
}

/** Zeroes a share of the entries and scales the rest up; the input itself outside training. */
export function drop(input: Tensor, share: number, mode: Mode): Tensor {
  if (!mode.training || share === 0) return input;
  const { device, type } = input;
  // libtorch's own draws with one thread on the CPU; ours gives the same on any number of them.
  if (device === "cpu" && (type === "float32" || type === "float64") && share < 1) return input.mul(dropoutMask(input.shape, share, type));
  return dropout(input, share, true);
}

export type Activation = "gelu" | "gelu_new" | "relu" | "silu" | "tanh";

export function activate(input: Tensor, activation: Activation): Tensor {
  if (activation === "relu") return input.relu();
  if (activation === "tanh") return input.tanh();
  if (activation === "silu") return input.mul(input.sigmoid());
  return gelu(input, activation === "gelu" ? "none" : "tanh");
}

/** A dense layer and its activation: in one where its weight is packed. */
export function denseActivated(weights: Weights, name: string, input: Tensor, activation: Activation): Tensor {
  const packed = weights.get(`${name}.packed`);
  if (packed && (activation === "gelu" || activation === "gelu_new"))
    return packedDense(input, packed, parameter(weights, `${name}.bias`), activation);
  return activate(dense(weights, name, input), activation);
}
