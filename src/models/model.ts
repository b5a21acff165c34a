import type { ForwardMode, Weights } from "../nn/index.js";
import type { Tensor } from "../tensor/index.js";
import type { Tokenization, Tokenizer } from "../text/encoding.js";
import type { EncoderConfig } from "./config.js";
import { type EncoderInput, embedInput, encodeLayers, getEncoderParameterShapes } from "./encoder.js";
import {
  applyHfHead,
  applyMlpHead,
  applyPooler,
  getHeadParameterShapes,
  getHeadPrefix,
  type HeadName,
} from "./heads.js";

/** What a text's feature is: the classification token's last layer (RIFT's paper), BERT's pooler over it (its code), or the mean over all tokens. */
export type PoolingMode = "cls" | "pooler" | "mean";

/** Which function a model is; the weights are its argument. */
export interface Architecture {
  readonly config: EncoderConfig;
  readonly head: HeadName;
  readonly pooling: PoolingMode;
  readonly numLabels: number;
}

export interface ModelOutput {
  /** Class scores in float32: [batch, class]. */
  readonly logits: Tensor;
  /** [batch, hidden]. */
  readonly features: Tensor;
}

/** The classifier: a pure function of its weights and an input. */
export function forward(shape: Architecture, weights: Weights, input: EncoderInput, mode: ForwardMode): ModelOutput {
  const { first, feature } = computeFeatures(shape, weights, input, mode);
  const logits =
    shape.head === "mlp" ? applyMlpHead(weights, feature) : applyHfHead(shape.config, weights, first, mode);
  return { logits: logits.to("float32"), features: feature };
}

/** The feature alone: what a teacher is asked for. */
export function extractFeatures(shape: Architecture, weights: Weights, input: EncoderInput, mode: ForwardMode): Tensor {
  return computeFeatures(shape, weights, input, mode).feature;
}

function computeFeatures(
  shape: Architecture,
  weights: Weights,
  input: EncoderInput,
  mode: ForwardMode,
): { first: Tensor; feature: Tensor } {
  const embedded = embedInput(shape.config, weights, input, mode);
  const wanted = shape.pooling === "mean" ? "all" : "first";
  const hidden = encodeLayers(shape.config, weights, embedded, input.attentionBias, mode, wanted);
  const first = hidden.select(1, 0);
  if (shape.pooling === "cls") return { first, feature: first };
  return {
    first,
    feature: shape.pooling === "pooler" ? applyPooler(weights, first) : meanPool(hidden, input.attentionBias),
  };
}

/** The mean over the positions that carry text: [batch, length, hidden] -> [batch, hidden]. */
function meanPool(hidden: Tensor, bias: Tensor | null): Tensor {
  if (!bias) return hidden.mean([1]);
  const text = bias.reshape(bias.size(0), bias.size(-1), 1).eq(0).to(hidden.dtype); // [batch, length, 1]
  return hidden
    .mul(text)
    .sum([1])
    .div(text.sum([1]));
}

/** Every parameter of a model with its shape: encoder first, then the head. */
export function getParameterShapes(shape: Architecture): Map<string, readonly number[]> {
  const pooled = shape.config.modelType === "bert" && (shape.head === "hf" || shape.pooling === "pooler");
  return new Map([
    ...getEncoderParameterShapes(shape.config),
    ...getHeadParameterShapes(shape.config, shape.head, shape.numLabels, pooled),
  ]);
}

/** Whether a parameter belongs to the head: trained from scratch, with a decay and a rate of its own. */
export function isHeadParameter(name: string): boolean {
  return name.startsWith(getHeadPrefix("hf")) || name.startsWith(getHeadPrefix("mlp"));
}

/** A model in memory: its function, its weights, and how it reads text. */
export interface Model {
  readonly architecture: Architecture;
  /** Leaves in float32 that live until `free`. */
  readonly weights: Weights;
  readonly tokenizer: Tokenizer;
  readonly tokenization: Tokenization;
  /** Tokens a text is cut to, special tokens included. */
  readonly maxLength: number;
  readonly labels: readonly string[];
  /** The task it was trained on; null where Temper did not train it. */
  readonly task: string | null;
  /** Where it came from: the folder, and the reference it was asked for by. */
  readonly folder: string;
  readonly reference: string;
  /** Parameters that the checkpoint did not hold and that were drawn anew. */
  readonly newlyInitialized: readonly string[];
}
