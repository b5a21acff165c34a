export * from "./autograd.js";
export * from "./create.js";
export { hasOperator, operator } from "./door.js";
export * from "./ops.js";
export { Rng } from "./random.js";
export * from "./runtime.js";
export { free, keep, scope } from "./scope.js";
export { Tensor } from "./tensor.js";
export type { DataType, Device, Options } from "./types.js";
