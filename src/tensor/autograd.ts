import { native } from "./native.js";
import { Tensor } from "./tensor.js";

export interface GradOptions {
  /** d(loss)/d(output) per output. Default: ones. */
  gradOutputs?: readonly Tensor[];
  /** Keep the graph for another backward pass. */
  retainGraph?: boolean;
  /** Record the backward pass itself, for second derivatives. */
  createGraph?: boolean;
}

/**
 * Computes the gradients of the sum of the outputs with respect to the inputs, like PyTorch's
 * `autograd.grad`. Nothing is accumulated. The outputs must depend on every input.
 *
 * @example
 * const x = tensor([3]).requiresGrad_();
 * const [gradient] = grad(x.square(), [x]); // 6
 */
export function grad(
  outputs: Tensor | readonly Tensor[],
  inputs: readonly Tensor[],
  options: GradOptions = {},
): Tensor[] {
  return computeGradients(outputs, inputs, options, false) as Tensor[];
}

/** Like `grad`, but returns null for inputs that the outputs do not depend on. */
export function gradOrNull(
  outputs: Tensor | readonly Tensor[],
  inputs: readonly Tensor[],
  options: GradOptions = {},
): (Tensor | null)[] {
  return computeGradients(outputs, inputs, options, true);
}

function computeGradients(
  outputs: Tensor | readonly Tensor[],
  inputs: readonly Tensor[],
  { gradOutputs, createGraph = false, retainGraph = createGraph }: GradOptions,
  allowUnused: boolean,
): (Tensor | null)[] {
  const gradients = native().grad(
    getHandles(outputs),
    getHandles(inputs),
    gradOutputs ? getHandles(gradOutputs) : null,
    retainGraph,
    createGraph,
    allowUnused,
  );
  return gradients.map((handle) => (handle === null ? null : new Tensor(handle)));
}

function getHandles(tensors: Tensor | readonly Tensor[]): number[] {
  return (tensors instanceof Tensor ? [tensors] : tensors).map((tensor) => tensor.handle);
}

/**
 * Runs a synchronous function without recording gradients.
 *
 * @example
 * const probabilities = noGrad(() => logits.softmax(-1));
 */
export function noGrad<T>(body: () => T): T {
  const before = native().setGradEnabled(false);
  try {
    return body();
  } finally {
    native().setGradEnabled(before);
  }
}
