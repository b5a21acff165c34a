export * from "./autograd.js";
export { findCpuSupport, getCpuSupport } from "./cpu-support.js";
export * from "./create.js";
export * from "./graph.js";
export { loadKernels } from "./kernels.js";
export { hasOperator, listenToOperators, type OperatorCall, operator } from "./operator.js";
export * from "./ops.js";
export {
  chooseFastestPrecision,
  getPrecisionVerdict,
  type PrecisionUse,
  requirePrecision,
} from "./precision-verdict.js";
export { type GradientReducer, ProcessGroup, type Rendezvous } from "./process-group.js";
export { Rng } from "./random.js";
export * from "./runtime.js";
export { free, keep, scope } from "./scope.js";
export * from "./staging.js";
export { Tensor } from "./tensor.js";
export { type Device, type DType, getGpuIndex } from "./types.js";
