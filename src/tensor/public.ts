/**
 * Tensors on libtorch: a typed tensor with a lifetime, operators, gradients and random numbers.
 *
 * @example
 * import { scope, tensor } from "temper-nlp/tensor";
 * const sum = scope(() => tensor([1, 2, 3]).add(1).sum().item()); // 9; the tensors are freed
 *
 * @module
 */

export { Rng } from "../base/rng.js";
export * from "./autograd.js";
export * from "./create.js";
export { type OperatorCall, operator } from "./operator.js";
export * from "./ops.js";
export { chooseDevice, getMemoryStats, getNumThreads, isTf32Allowed, seedGenerator, setNumThreads } from "./runtime.js";
export { free, keep, scope } from "./scope.js";
export { Tensor } from "./tensor.js";
export type { Device, DType, TensorOptions } from "./types.js";
