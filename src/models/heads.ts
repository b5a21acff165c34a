import { dense, getParameter, type Weights } from "../nn/index.js";
import { linear, type Tensor } from "../tensor/index.js";
import { ShapeList } from "./families/blocks.js";
import type { EncoderConfig, ParameterShapes } from "./families/family.js";
import { getFamily } from "./families/index.js";

/**
 * The classification head. `hf` is the head of transformers for the family of the encoder, so
 * checkpoints are interchangeable. `mlp` is RIFT's: hidden -> 256 -> ReLU -> labels.
 */
export type HeadName = "hf" | "mlp";

/** The prefix of the parameter names of the mlp head. Its file has no other parameters. */
export const mlpHeadPrefix = "head.";

/** The hidden size of the mlp head (RIFT A.1). */
const mlpHiddenSize = 256;

export function applyMlpHead(weights: Weights, features: Tensor): Tensor {
  return dense(weights, "head.out", dense(weights, "head.dense", features).relu());
}

export function getHeadParameterShapes(config: EncoderConfig, head: HeadName, numLabels: number): ParameterShapes {
  if (head === "hf") return getFamily(config).classification.getShapes(config, numLabels);
  return new ShapeList()
    .addDense("head.dense", mlpHiddenSize, config.hiddenSize)
    .addDense("head.out", numLabels, mlpHiddenSize).shapes;
}

/** Computes the logits of a masked language model: [..., hidden] -> [..., vocabulary]. */
export function applyMaskedLmHead(config: EncoderConfig, weights: Weights, hidden: Tensor): Tensor {
  const family = getFamily(config);
  const { decoder, bias, transform } = family.maskedLm(config);
  const matrix = getParameter(weights, `${config.tieWordEmbeddings ? family.wordEmbeddings : decoder}.weight`);
  return linear(transform(weights, hidden), matrix, bias === null ? null : getParameter(weights, bias));
}

export function getMaskedLmParameterShapes(config: EncoderConfig): ParameterShapes {
  const { decoder, bias, shapes } = getFamily(config).maskedLm(config);
  const all = new Map(shapes);
  if (!config.tieWordEmbeddings) all.set(`${decoder}.weight`, [config.vocabSize, config.embeddingSize]);
  if (bias !== null) all.set(bias, [config.vocabSize]);
  return all;
}
