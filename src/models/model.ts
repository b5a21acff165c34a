import type { Mode, Weights } from "../nn/index.js";
import type { Tensor } from "../tensor/index.js";
import type { EncodingName, Tokenizer } from "../text/encoding.js";
import type { EncoderConfig } from "./config.js";
import { type EncoderInput, embedInput, encodeLayers, encoderParameters } from "./encoder.js";
import { type HeadName, headParameters, headPrefix, hfHead, mlpHead, pool } from "./heads.js";

/** What a text's feature is: the classification token's last layer (RIFT's paper), BERT's pooler over it (its code), or the mean over all tokens. */
export type FeatureName = "token" | "pooler" | "mean";

/** Which function a model is; the weights are its argument. */
export interface Shape {
  readonly config: EncoderConfig;
  readonly head: HeadName;
  readonly feature: FeatureName;
  readonly classes: number;
}

export interface Output {
  /** Class scores in float32: [batch, class]. */
  readonly logits: Tensor;
  /** [batch, hidden]. */
  readonly feature: Tensor;
}

/** The classifier: a pure function of its weights and an input. */
export function forward(shape: Shape, weights: Weights, input: EncoderInput, mode: Mode): Output {
  const { first, feature } = features(shape, weights, input, mode);
  const logits = shape.head === "mlp" ? mlpHead(weights, feature) : hfHead(shape.config, weights, first, mode);
  return { logits: logits.to("float32"), feature };
}

/** The feature alone: what a teacher is asked for. */
export function featureOf(shape: Shape, weights: Weights, input: EncoderInput, mode: Mode): Tensor {
  return features(shape, weights, input, mode).feature;
}

function features(shape: Shape, weights: Weights, input: EncoderInput, mode: Mode): { first: Tensor; feature: Tensor } {
  const embedded = embedInput(shape.config, weights, input, mode);
  const wanted = shape.feature === "mean" ? "all" : "first";
  const hidden = encodeLayers(shape.config, weights, embedded, input.bias, mode, wanted);
  const first = hidden.select(1, 0);
  if (shape.feature === "token") return { first, feature: first };
  return { first, feature: shape.feature === "pooler" ? pool(weights, first) : meanOverText(hidden, input.bias) };
}

/** The mean over the positions that carry text: [batch, length, hidden] -> [batch, hidden]. */
function meanOverText(hidden: Tensor, bias: Tensor | null): Tensor {
  if (!bias) return hidden.mean([1]);
  const text = bias.reshape(bias.size(0), bias.size(-1), 1).eq(0).to(hidden.type); // [batch, length, 1]
  return hidden
    .mul(text)
    .sum([1])
    .div(text.sum([1]));
}

/** Every parameter of a model with its shape: encoder first, then the head. */
export function modelParameters(shape: Shape): Map<string, readonly number[]> {
  const pooled = shape.config.modelType === "bert" && (shape.head === "hf" || shape.feature === "pooler");
  return new Map([...encoderParameters(shape.config), ...headParameters(shape.config, shape.head, shape.classes, pooled)]);
}

/** Whether a parameter belongs to the head: trained from scratch, with a decay and a rate of its own. */
export function isHead(name: string): boolean {
  return name.startsWith(headPrefix("hf")) || name.startsWith(headPrefix("mlp"));
}

/** A model in memory: its function, its weights, and how it reads text. */
export interface Model {
  readonly shape: Shape;
  /** Leaves in float32 that live until `free`. */
  readonly weights: Weights;
  readonly tokenizer: Tokenizer;
  readonly encoding: EncodingName;
  /** Tokens a text is cut to, special tokens included. */
  readonly maxLength: number;
  readonly labels: readonly string[];
  /** The task it was trained on; null where Temper did not train it. */
  readonly task: string | null;
  /** Where it came from: the folder, and the reference it was asked for by. */
  readonly folder: string;
  readonly reference: string;
  /** Parameters that the checkpoint did not hold and that were drawn anew. */
  readonly fresh: readonly string[];
}
