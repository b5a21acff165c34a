export * from "./autograd.js";
export * from "./create.js";
export {
  allocatePinned as pinned,
  type CudaGraph as Graph,
  captureGraph as capture,
  runOnParallelStreams as sideBySide,
  synchronize,
  useCapturableStream as useRecordableStream,
} from "./graph.js";
export { hasOperator, operator } from "./operator.js";
export * from "./ops.js";
export { Rng } from "./random.js";
export * from "./runtime.js";
export { free, keep, scope } from "./scope.js";
export {
  acquireEvent as newEvent,
  type HostTensor,
  releaseEvents as freeEvents,
  StagingBuffers as Staging,
} from "./staging.js";
export { Tensor } from "./tensor.js";
export {
  type Device,
  type DType as DataType,
  getGpuIndex as gpuIndex,
  type TensorOptions as Options,
} from "./types.js";
