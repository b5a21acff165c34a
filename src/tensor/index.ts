export * from "./graph.js";
export { loadKernels } from "./kernels.js";
export { hasOperator, listenToOperators } from "./operator.js";
export {
  chooseFastestPrecision,
  findCpuSupport,
  getCpuSupport,
  getPrecisionVerdict,
  type PrecisionUse,
  requirePrecision,
} from "./precision-verdict.js";
export { ProcessGroup, type Rendezvous } from "./process-group.js";
export * from "./public.js";
export * from "./runtime.js";
export * from "./staging.js";
export { dtypeCodes, getGpuIndex } from "./types.js";
