import { dense, dropout, type ForwardMode, type Weights } from "../nn/index.js";
import type { Tensor } from "../tensor/index.js";
import type { EncoderConfig } from "./config.js";

/**
 * hf: transformers' own sequence-classification head (BERT: pooler and classifier; RoBERTa: dense, tanh, out_proj), so that
 * checkpoints pass both ways. mlp: RIFT's, hidden -> 256 -> ReLU -> classes.
 */
export type HeadName = "hf" | "mlp";

/** What the names of a head's own parameters begin with. */
export function getHeadPrefix(head: HeadName): string {
  return head === "mlp" ? "head." : "classifier.";
}

/** The width of the mlp head's hidden layer (RIFT A.1). */
const mlpHiddenSize = 256;

/** BERT's pooler: the classification token through a dense layer and tanh. */
export function applyPooler(weights: Weights, feature: Tensor): Tensor {
  return dense(weights, "bert.pooler.dense", feature).tanh();
}

/** Class scores [batch, class] from the classification token's last-layer vector [batch, hidden]. */
export function applyHfHead(config: EncoderConfig, weights: Weights, feature: Tensor, mode: ForwardMode): Tensor {
  const dropoutP = config.classifierDropout ?? config.hiddenDropout;
  if (config.modelType === "bert")
    return dense(weights, "classifier", dropout(applyPooler(weights, feature), dropoutP, mode));
  const middle = dense(weights, "classifier.dense", dropout(feature, dropoutP, mode)).tanh();
  return dense(weights, "classifier.out_proj", dropout(middle, dropoutP, mode));
}

/** Class scores from any feature [batch, hidden]. */
export function applyMlpHead(weights: Weights, feature: Tensor): Tensor {
  return dense(weights, "head.out", dense(weights, "head.dense", feature).relu());
}

/** A head's parameters with their shapes. `pooled`: BERT's pooler is used, by the head or as the feature. */
export function getHeadParameterShapes(
  config: EncoderConfig,
  head: HeadName,
  classes: number,
  pooled: boolean,
): Map<string, readonly number[]> {
  const { hiddenSize: hidden } = config;
  const shapes = new Map<string, readonly number[]>();
  const layer = (name: string, out: number, input: number): void => {
    shapes.set(`${name}.weight`, [out, input]);
    shapes.set(`${name}.bias`, [out]);
  };
  if (pooled) layer("bert.pooler.dense", hidden, hidden);
  if (head === "mlp") {
    layer("head.dense", mlpHiddenSize, hidden);
    layer("head.out", classes, mlpHiddenSize);
  } else if (config.modelType === "bert") {
    layer("classifier", classes, hidden);
  } else {
    layer("classifier.dense", hidden, hidden);
    layer("classifier.out_proj", classes, hidden);
  }
  return shapes;
}
