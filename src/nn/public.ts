/**
 * Layers, losses, AdamW and operations over lists of tensors.
 *
 * @example
 * import { crossEntropy, dense } from "temper-nlp/nn";
 * const loss = crossEntropy(dense(weights, "classifier", features), labels);
 *
 * @module
 */

export * from "./adamw.js";
export { dropout } from "./dropout.js";
export * from "./foreach.js";
export type { ForwardMode } from "./forward-mode.js";
export * from "./layers.js";
export * from "./losses.js";
export * from "./multi-tensor.js";
export * from "./weights.js";
