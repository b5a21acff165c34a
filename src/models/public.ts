/**
 * Encoders as functions of named weights: loading, forward passes, and what a parameter is.
 *
 * @example
 * import { forward, loadModel, toModelInput, tokenizeAll } from "temper-nlp/models";
 * const model = await loadModel("roberta-base", { labels: ["no", "yes"] });
 *
 * @module
 */
export { type LoadModelOptions, loadModel } from "./checkpoint/load.js";
export { savePeftAdapter } from "./checkpoint/peft-adapter.js";
export { saveModel } from "./checkpoint/save.js";
export { cpuFloat32, type DeviceConfig } from "./device-config.js";
export { type EncoderInput, embedInput, embedWords } from "./encoder.js";
export type { EncoderConfig, PoolingMode } from "./families/family.js";
export {
  getEncoderPart,
  getLayerIndex,
  isHeadParameter,
  isNormParameter,
  isPoolerParameter,
  modelTypes,
} from "./families/index.js";
export { predictProbabilities } from "./inference/classifier.js";
export { checkOutputs } from "./inference/finite-outputs.js";
export { batchForInference } from "./inference/inference-batches.js";
export {
  type Architecture,
  doesHeadReadFeatures,
  extractFeatures,
  forward,
  getParameterShapes,
  getPretrainedParameterNames,
  type Model,
  type ModelOutput,
} from "./model.js";
export { type TokenInput, tokenizeAll, toModelInput } from "./model-input.js";
