import { native } from "./native.js";
import { Tensor } from "./tensor.js";

export interface GradOptions {
  /** d(loss)/d(output) for each output; ones where left out. */
  gradOutputs?: readonly Tensor[];
  /** Keep the graph for another backward pass over it. */
  retainGraph?: boolean;
  /** Record the backward pass itself, for second derivatives. */
  createGraph?: boolean;
}

/** Gradients of the outputs' sum with respect to chosen inputs; nothing is accumulated anywhere. Every input must take part. */
export function grad(
  outputs: Tensor | readonly Tensor[],
  inputs: readonly Tensor[],
  options: GradOptions = {},
): Tensor[] {
  return computeGradients(outputs, inputs, options, false).map((handle) => new Tensor(handle as number));
}

/** The same; null for inputs that the outputs do not depend on. */
export function gradOrNull(
  outputs: Tensor | readonly Tensor[],
  inputs: readonly Tensor[],
  options: GradOptions = {},
): (Tensor | null)[] {
  return computeGradients(outputs, inputs, options, true).map((handle) =>
    handle === null ? null : new Tensor(handle),
  );
}

function computeGradients(
  outputs: Tensor | readonly Tensor[],
  inputs: readonly Tensor[],
  options: GradOptions,
  allowUnused: boolean,
): (number | null)[] {
  const from = outputs instanceof Tensor ? [outputs] : outputs;
  return native().grad(
    from.map((output) => output.handle),
    inputs.map((input) => input.handle),
    options.gradOutputs ? options.gradOutputs.map((gradient) => gradient.handle) : null,
    options.retainGraph ?? options.createGraph ?? false,
    options.createGraph ?? false,
    allowUnused,
  );
}

/** Adds gradients to the leaves themselves, PyTorch's way; read them with `accumulatedGrad`. */
export function backward(outputs: Tensor | readonly Tensor[], options: { retainGraph?: boolean } = {}): void {
  const from = outputs instanceof Tensor ? [outputs] : outputs;
  native().backward(
    from.map((output) => output.handle),
    options.retainGraph ?? false,
  );
}

export function getAccumulatedGrad(leaf: Tensor): Tensor | null {
  const handle = native().accumulated(leaf.handle);
  return handle === null ? null : new Tensor(handle);
}

export function clearAccumulatedGrad(leaf: Tensor): void {
  native().clearAccumulated(leaf.handle);
}

function withGradMode<T>(on: boolean, body: () => T): T {
  const before = native().setRecording(on);
  try {
    return body();
  } finally {
    native().setRecording(before);
  }
}

/** Runs a synchronous body without recording gradients. */
export function noGrad<T>(body: () => T): T {
  return withGradMode(false, body);
}

/** Records again inside a `noGrad` body. */
export function enableGrad<T>(body: () => T): T {
  return withGradMode(true, body);
}
