export * from "./autograd.js";
export { type CpuSupport, findCpuSupport, getCpuSupport } from "./cpu-support.js";
export * from "./create.js";
export * from "./graph.js";
export { kernelProblem, loadKernels } from "./kernels.js";
export type { MemoryStats } from "./native.js";
export { hasOperator, listenToOperators, type OperatorCall, operator } from "./operator.js";
export * from "./ops.js";
export {
  chooseFastestPrecision,
  getPrecisionVerdict,
  type LowPrecision,
  type PrecisionUse,
  type PrecisionVerdict,
  requirePrecision,
} from "./precision-verdict.js";
export { type GradientReducer, PeerError, ProcessGroup, type Rendezvous } from "./process-group.js";
export { Rng } from "./random.js";
export * from "./runtime.js";
export { free, keep, scope } from "./scope.js";
export * from "./staging.js";
export { Tensor } from "./tensor.js";
export { type Device, type DType, getGpuIndex, type TensorOptions } from "./types.js";
