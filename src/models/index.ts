export { canPackTexts } from "./can-pack.js";
export { hashModelFolder } from "./checkpoint/checkpoint.js";
export * from "./checkpoint/load.js";
export { savePeftAdapter } from "./checkpoint/peft-adapter.js";
export * from "./checkpoint/save.js";
export * from "./config.js";
export * from "./device-config.js";
export * from "./encoder.js";
export type { EncoderConfig, PoolingMode } from "./families/family.js";
export {
  getEncoderPart,
  getFamily,
  getLayerIndex,
  isHeadParameter,
  isNormParameter,
  isPoolerParameter,
  modelTypes,
} from "./families/index.js";
export type { HeadName } from "./heads.js";
export * from "./inference/classifier.js";
export type { Classifier } from "./inference/classifier-interface.js";
export { checkOutputs } from "./inference/finite-outputs.js";
export { type FusedParameter, fuseQkv } from "./inference/fused-weights.js";
export { batchByLength, batchForInference } from "./inference/inference-batches.js";
export * from "./masked-lm.js";
export * from "./model.js";
export * from "./model-input.js";
export { duplicatePacking } from "./packing.js";
