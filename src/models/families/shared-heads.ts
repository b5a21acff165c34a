import { type Activation, activate, dense, denseWithActivation, dropout, layerNorm } from "../../nn/index.js";
import { ShapeList } from "./blocks.js";
import type { ClassificationHead, EncoderConfig, MaskedLmHead } from "./family.js";

export const linearHead: ClassificationHead<EncoderConfig> = {
  pooling: () => "pooler",
  getShapes: ({ hiddenSize }, numLabels) => new ShapeList().addDense("classifier", numLabels, hiddenSize).shapes,
  apply: (config, weights, pooled, mode) => dense(weights, "classifier", dropout(pooled, getHeadDropout(config), mode)),
};

/** RoBERTa's head: dropout, dense, activation, dropout, dense. */
export function createTwoLayerHead(
  activation: "tanh" | "gelu",
  getDropout: (config: EncoderConfig) => number = getHeadDropout,
): ClassificationHead<EncoderConfig> {
  return {
    pooling: () => "cls",
    getShapes: ({ hiddenSize }, numLabels) =>
      new ShapeList()
        .addDense("classifier.dense", hiddenSize, hiddenSize)
        .addDense("classifier.out_proj", numLabels, hiddenSize).shapes,
    apply: (config, weights, pooled, mode) => {
      const p = getDropout(config);
      const hidden = activate(dense(weights, "classifier.dense", dropout(pooled, p, mode)), activation);
      return dense(weights, "classifier.out_proj", dropout(hidden, p, mode));
    },
  };
}

export function getHeadDropout({ classifierDropout, hiddenDropout }: EncoderConfig): number {
  return classifierDropout ?? hiddenDropout;
}

export function createMaskedLmHead(
  names: { readonly decoder: string; readonly bias: string; readonly dense: string; readonly norm: string },
  { hiddenSize, layerNormEps }: EncoderConfig,
  size: number,
  activation: Activation,
): MaskedLmHead {
  return {
    decoder: names.decoder,
    bias: names.bias,
    shapes: new ShapeList().addDense(names.dense, size, hiddenSize).addNorm(names.norm, size).shapes,
    transform: (weights, hidden) =>
      layerNorm(weights, names.norm, denseWithActivation(weights, names.dense, hidden, activation), layerNormEps),
  };
}
