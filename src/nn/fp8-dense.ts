import {
  type Device,
  dtypeCodes,
  getGpuIndex,
  hasOperator,
  loadKernels,
  operator,
  type Tensor,
} from "../tensor/index.js";
import { native } from "../tensor/native.js";
import type { Weights } from "./weights.js";

// Products in 8 bits (e4m3) on a GPU, for inference. Each row of the input and each output of the weight has a scale
// of its own, so the result of a text does not depend on the other texts of a batch.

/** Rows in 8 bits [row, column], and the scale of each row [row, 1]. */
export type QuantizedRows = readonly [levels: Tensor, scales: Tensor];

const quantizeRowsOp = operator<(input: Tensor) => QuantizedRows>("temper::quantize_rows");
const biasGeluOp = operator<(input: Tensor, bias: Tensor, tanh: boolean) => QuantizedRows>("temper::bias_gelu_fp8");
const residualNormOp =
  operator<
    (
      input: Tensor,
      bias: Tensor,
      residual: Tensor,
      weight: Tensor,
      offset: Tensor,
      epsilon: number,
    ) => readonly [output: Tensor, ...rows: QuantizedRows]
  >("temper::residual_norm_fp8");
const scaledMmOp =
  operator<
    (
      input: Tensor,
      weight: Tensor,
      inputScales: Tensor,
      weightScales: Tensor,
      bias: Tensor | null,
      resultScale: null,
      dtype: number,
      fastAccumulation: boolean,
    ) => Tensor
  >("_scaled_mm");

/** The first GPUs with products in 8 bits are those of compute capability 8.9. */
const minCapability = 8.9;

/** Returns true if a GPU multiplies matrices of these widths in 8 bits. Loads the kernels. */
export function canUseFp8(device: Device, hidden: number, intermediate: number, tanh: boolean): boolean {
  const properties = device === "cpu" ? undefined : native().devices()[getGpuIndex(device)];
  if (!properties || Number(properties.capability) < minCapability) return false;
  if (hidden % 128 !== 0 || hidden > 2048 || intermediate % 16 !== 0) return false;
  if (!hasOperator("_scaled_mm") || !hasOperator("temper::quantize_rows")) return false;
  const widths = [hidden, intermediate];
  return (
    loadKernels("residual-norm", hidden, "bfloat16", device) &&
    loadKernels(tanh ? "activation-tanh" : "activation", intermediate, "bfloat16", device) &&
    // Weights are rounded from float32.
    widths.every((width) => loadKernels("activation", width, "float32", device)) &&
    widths.every((width) => loadKernels("activation", width, "bfloat16", device))
  );
}

export function prepareFp8Weight(weight: Tensor): { readonly fp8: Tensor; readonly fp8Scales: Tensor } {
  const [levels, scales] = quantizeRowsOp(weight);
  return { fp8: levels.t(), fp8Scales: scales.reshape(1, -1) };
}

export function hasFp8Weight(weights: Weights, name: string): boolean {
  return weights.has(`${name}.fp8`);
}

/** Outputs of `fp8ResidualNorm`, whose rows the same kernel has rounded. */
const roundedOutputs = new WeakMap<Tensor, QuantizedRows>();

/** Returns the output of a layer with its rounded rows, if there are any, so that a scope keeps both. */
export function withRoundedRows(output: Tensor): readonly [Tensor, ...Tensor[]] {
  return [output, ...(roundedOutputs.get(output) ?? [])];
}

/** x Wᵀ + b: [row, output]. */
function multiply([levels, scales]: QuantizedRows, weights: Weights, name: string, bias: Tensor | null): Tensor {
  const [weight, weightScales] = [weights.get(`${name}.fp8`)!, weights.get(`${name}.fp8Scales`)!];
  return scaledMmOp(levels, weight, scales, weightScales, bias, null, dtypeCodes.bfloat16, true);
}

/** x Wᵀ + b with a weight in 8 bits. */
export function fp8Dense(weights: Weights, name: string, input: Tensor, bias: Tensor | null): Tensor {
  const rows = roundedOutputs.get(input) ?? quantizeRowsOp(input);
  return multiply(rows, weights, name, bias).reshape(...input.shape.slice(0, -1), -1);
}

/** LayerNorm(residual + x + b), whose rows are also rounded for the next product. */
export function fp8ResidualNorm(
  product: Tensor,
  bias: Tensor,
  residual: Tensor,
  norm: { readonly weight: Tensor; readonly bias: Tensor },
  epsilon: number,
): Tensor {
  const [output, ...rows] = residualNormOp(product, bias, residual, norm.weight, norm.bias, epsilon);
  const shaped = output.reshape(...residual.shape);
  roundedOutputs.set(shaped, rows);
  return shaped;
}

/** W₂ GELU(W₁ x + b₁): [row, output]. */
export function fp8FeedForward(
  weights: Weights,
  names: { readonly inner: string; readonly outer: string },
  input: Tensor,
  innerBias: Tensor,
  tanh: boolean,
): Tensor {
  return multiply(biasGeluOp(fp8Dense(weights, names.inner, input, null), innerBias, tanh), weights, names.outer, null);
}
