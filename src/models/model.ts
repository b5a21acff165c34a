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

/**
 * How token states become a text embedding: the last hidden state of the classification token
 * (RIFT's paper), a pooler on top of it (RIFT's code), or the mean over all tokens.
 */
export type PoolingMode = "cls" | "pooler" | "mean";

/** The function that a model computes. The weights are its argument. */
export interface Architecture {
  readonly config: EncoderConfig;
  readonly head: HeadName;
  readonly pooling: PoolingMode;
  readonly numLabels: number;
}

/** The output of a forward pass. */
export interface ModelOutput {
  /** Logits in float32: [batch, label]. */
  readonly logits: Tensor;
  /** Text embeddings: [batch, hidden]. */
  readonly features: Tensor;
}

/**
 * Computes logits and features. It is a pure function of the weights and the input.
 *
 * @example
 * const { logits } = forward(model.architecture, model.weights, input, evalMode);
 */
export function forward(
  architecture: Architecture,
  weights: Weights,
  input: EncoderInput,
  mode: ForwardMode,
): ModelOutput {
  const { cls, features } = extractFeatures(architecture, weights, input, mode);
  const logits =
    architecture.head === "mlp"
      ? applyMlpHead(weights, features)
      : applyHfHead(architecture.config, weights, cls, mode);
  return { logits: logits.to("float32"), features };
}

/** Computes only the last hidden state of the first token and the features, e.g. of a teacher. */
export function extractFeatures(
  { config, pooling }: Architecture,
  weights: Weights,
  input: EncoderInput,
  mode: ForwardMode,
): { cls: Tensor; features: Tensor } {
  const embeddingOutput = embedInput(config, weights, input, mode);
  const positions = pooling === "mean" ? "all" : "first";
  const hidden = encodeLayers(config, weights, embeddingOutput, input.attentionBias, mode, positions);
  const cls = hidden.select(1, 0);
  if (pooling === "cls") return { cls, features: cls };
  return {
    cls,
    features: pooling === "pooler" ? applyPooler(config, weights, cls) : meanPool(hidden, input.attentionBias),
  };
}

/** Averages over the tokens, without padding: [batch, length, hidden] -> [batch, hidden]. */
function meanPool(hidden: Tensor, attentionBias: Tensor | null): Tensor {
  if (!attentionBias) return hidden.mean([1]);
  const [rows, length] = [attentionBias.size(0), attentionBias.size(-1)];
  const mask = attentionBias.reshape(rows, length, 1).eq(0).to(hidden.dtype); // [batch, length, 1]
  return hidden
    .mul(mask)
    .sum([1])
    .div(mask.sum([1]));
}

/** Returns the shape of every parameter of a model: the encoder first, then the head. */
export function getParameterShapes({ config, head, pooling, numLabels }: Architecture): Map<string, readonly number[]> {
  const usesPooler = pooling === "pooler" || (config.modelType === "bert" && head === "hf");
  return new Map([
    ...getEncoderParameterShapes(config),
    ...getHeadParameterShapes(config, head, numLabels, usesPooler),
  ]);
}

/**
 * Whether the head classifies by the features. The `hf` head reads the first token, through the
 * pooler only if it is BERT's.
 */
export function doesHeadReadFeatures({ config, head, pooling }: Architecture): boolean {
  return head === "mlp" || pooling === "cls" || (pooling === "pooler" && config.modelType === "bert");
}

/** Whether a parameter belongs to the head, which is trained from scratch. */
export function isHeadParameter(name: string): boolean {
  return name.startsWith(getHeadPrefix("hf")) || name.startsWith(getHeadPrefix("mlp"));
}

/** The parameters from pre-training: all except the head and newly initialized ones. */
export function getPretrainedParameterNames(model: Pick<Model, "weights" | "newlyInitialized">): string[] {
  return [...model.weights.keys()].filter((name) => !isHeadParameter(name) && !model.newlyInitialized.includes(name));
}

/** A model in memory: its architecture, its weights and its tokenizer. */
export interface Model {
  readonly architecture: Architecture;
  /** Leaf tensors in float32 that live until `free`. */
  readonly weights: Weights;
  readonly tokenizer: Tokenizer;
  readonly tokenization: Tokenization;
  /** Texts are truncated to this many tokens, special tokens included. */
  readonly maxLength: number;
  readonly labels: readonly string[];
  /** The task that the model was trained on, or null if Temper did not train it. */
  readonly task: string | null;
  /** The local folder of the model. */
  readonly folder: string;
  /** The reference that was passed to `loadModel`. */
  readonly reference: string;
  /** Parameters that were not in the checkpoint and were initialized randomly. */
  readonly newlyInitialized: readonly string[];
}
