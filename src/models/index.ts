export { hashModelFolder } from "./checkpoint.js";
export * from "./classifier.js";
export * from "./config.js";
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
export { checkOutputs } from "./finite-outputs.js";
export { fuseQkv } from "./fused-weights.js";
export type { HeadName } from "./heads.js";
export { batchByLength, batchForInference } from "./inference-batches.js";
export * from "./load.js";
export * from "./masked-lm.js";
export * from "./model.js";
export * from "./model-input.js";
export { canPackTexts, duplicatePacking } from "./packing.js";
export * from "./save.js";
