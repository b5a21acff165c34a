import { dense, dropout, type ForwardMode, type Weights } from "../nn/index.js";
import type { Tensor } from "../tensor/index.js";
import type { EncoderConfig } from "./config.js";

/**
 * The classification head. `hf` is the head of transformers (BERT: pooler and classifier; RoBERTa:
 * dense, tanh, out_proj), so checkpoints are interchangeable. `mlp` is RIFT's: hidden -> 256 ->
 * ReLU
 * -> labels.
 */
export type HeadName = "hf" | "mlp";

/** Returns the prefix of the parameter names of a head. */
export function getHeadPrefix(head: HeadName): string {
  return head === "mlp" ? "head." : "classifier.";
}

/** The hidden size of the mlp head (RIFT A.1). */
const mlpHiddenSize = 256;

/** Applies the pooler to the classification token: a dense layer and tanh. */
export function applyPooler(config: EncoderConfig, weights: Weights, features: Tensor): Tensor {
  return dense(weights, getPoolerName(config), features).tanh();
}

function getPoolerName(config: EncoderConfig): string {
  return `${config.modelType}.pooler.dense`;
}

/**
 * Computes logits [batch, label] from the last hidden state of the classification token [batch,
 * hidden].
 */
export function applyHfHead(config: EncoderConfig, weights: Weights, features: Tensor, mode: ForwardMode): Tensor {
  const dropoutP = config.classifierDropout ?? config.hiddenDropout;
  if (config.modelType === "bert")
    return dense(weights, "classifier", dropout(applyPooler(config, weights, features), dropoutP, mode));
  const hidden = dense(weights, "classifier.dense", dropout(features, dropoutP, mode)).tanh();
  return dense(weights, "classifier.out_proj", dropout(hidden, dropoutP, mode));
}

/** Computes logits [batch, label] from features [batch, hidden]. */
export function applyMlpHead(weights: Weights, features: Tensor): Tensor {
  return dense(weights, "head.out", dense(weights, "head.dense", features).relu());
}

/** Returns the shapes of the parameters of a head, with the pooler if `usesPooler`. */
export function getHeadParameterShapes(
  config: EncoderConfig,
  head: HeadName,
  numLabels: number,
  usesPooler: boolean,
): Map<string, readonly number[]> {
  const { hiddenSize } = config;
  const shapes = new Map<string, readonly number[]>();
  const addLayer = (name: string, out: number, input: number): void => {
    shapes.set(`${name}.weight`, [out, input]);
    shapes.set(`${name}.bias`, [out]);
  };
  if (usesPooler) addLayer(getPoolerName(config), hiddenSize, hiddenSize);
  if (head === "mlp") {
    addLayer("head.dense", mlpHiddenSize, hiddenSize);
    addLayer("head.out", numLabels, mlpHiddenSize);
  } else if (config.modelType === "bert") {
    addLayer("classifier", numLabels, hiddenSize);
  } else {
    addLayer("classifier.dense", hiddenSize, hiddenSize);
    addLayer("classifier.out_proj", numLabels, hiddenSize);
  }
  return shapes;
}
