import { dense, type ForwardMode, type Weights } from "../nn/index.js";
import { free, type Tensor } from "../tensor/index.js";
import type { Normalization } from "../text/canonical-tokenizer.js";
import type { Tokenization, Tokenizer } from "../text/encoding.js";
import { type EncoderInput, embedInput, embedTokens, encodeLayers, getEncoderParameterShapes } from "./encoder.js";
import { ShapeList } from "./families/blocks.js";
import type { EncoderConfig, ParameterShapes, PoolingMode } from "./families/family.js";
import { getFamily, isHeadParameter } from "./families/index.js";
import type { Classifier } from "./inference/classifier-interface.js";

/**
 * The classification head. `hf` is the head of transformers for the family of the encoder, so
 * checkpoints are interchangeable. `mlp` is RIFT's: hidden -> 256 -> ReLU -> labels.
 */
export type HeadName = "hf" | "mlp";

/** The prefix of the parameter names of the mlp head. Its file has no other parameters. */
export const mlpHeadPrefix = "head.";

/** The hidden size of the mlp head (RIFT A.1). */
const mlpHiddenSize = 256;

function applyMlpHead(weights: Weights, features: Tensor): Tensor {
  return dense(weights, "head.out", dense(weights, "head.dense", features).relu());
}

function getHeadParameterShapes(config: EncoderConfig, head: HeadName, numLabels: number): ParameterShapes {
  if (head === "hf") return getFamily(config).classification.getShapes(config, numLabels);
  return new ShapeList()
    .addDense("head.dense", mlpHiddenSize, config.hiddenSize)
    .addDense("head.out", numLabels, mlpHiddenSize).shapes;
}

export interface Architecture {
  readonly config: EncoderConfig;
  readonly head: HeadName;
  readonly pooling: PoolingMode;
  readonly numLabels: number;
}

export interface ModelOutput {
  /** Logits in float32: [batch, label], or [predicted token, vocabulary]. */
  readonly logits: Tensor;
  /** Text embeddings: [batch, hidden], or the states of the predicted tokens. */
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
  const { config, head, pooling } = architecture;
  const { classification } = getFamily(config);
  const headPooling = head === "hf" ? classification.pooling(config) : "cls";
  const positions = pooling === "mean" || headPooling === "mean" ? "all" : "first";
  const hidden = encodeInput(config, weights, input, mode, positions);
  const features = poolHidden(config, weights, hidden, input.attentionBias, pooling);
  if (head === "mlp") return { logits: applyMlpHead(weights, features).to("float32"), features };
  const pooled =
    headPooling === "cls" && pooling === "cls"
      ? features
      : poolHidden(config, weights, hidden, input.attentionBias, headPooling);
  return { logits: classification.apply(config, weights, pooled, mode).to("float32"), features };
}

export function extractFeatures(
  { config, pooling }: Pick<Architecture, "config" | "pooling">,
  weights: Weights,
  input: EncoderInput,
  mode: ForwardMode,
): Tensor {
  const hidden = encodeInput(config, weights, input, mode, pooling === "mean" ? "all" : "first");
  return poolHidden(config, weights, hidden, input.attentionBias, pooling);
}

export function encodeInput(
  config: EncoderConfig,
  weights: Weights,
  input: EncoderInput,
  mode: ForwardMode,
  positions: "first" | "all",
): Tensor {
  const tokens = embedTokens(config, weights, input, mode);
  const embeddingOutput = tokens?.embeddingOutput ?? embedInput(config, weights, input, mode);
  const isPacked = tokens?.isPacked ?? ("embeddingOutput" in input && input.isPacked);
  return encodeLayers(config, weights, embeddingOutput, input, mode, positions, undefined, isPacked);
}

/** [batch, length, hidden] -> [batch, hidden]. */
function poolHidden(
  config: EncoderConfig,
  weights: Weights,
  hidden: Tensor,
  attentionBias: Tensor | null,
  pooling: PoolingMode,
): Tensor {
  if (pooling === "mean") return meanPool(hidden, attentionBias);
  const first = hidden.select(1, 0);
  if (pooling === "cls") return first;
  const { pooler } = getFamily(config);
  if (!pooler) throw new Error(`a ${config.modelType} encoder has no pooler`);
  return pooler.apply(weights, first);
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

export function getParameterShapes({ config, head, pooling, numLabels }: Architecture): ParameterShapes {
  const family = getFamily(config);
  const usesPooler = pooling === "pooler" || (head === "hf" && family.classification.pooling(config) === "pooler");
  return new Map([
    ...getEncoderParameterShapes(config),
    ...(usesPooler && family.pooler ? family.pooler.getShapes(config) : []),
    ...getHeadParameterShapes(config, head, numLabels),
  ]);
}

/** Returns true if the head classifies by the features, or by something that is computed from them. */
export function doesHeadReadFeatures({ config, head, pooling }: Architecture): boolean {
  const headPooling = getFamily(config).classification.pooling(config);
  return head === "mlp" || pooling === headPooling || (pooling === "cls" && headPooling === "pooler");
}

export function getPretrainedParameterNames(model: Pick<Model, "weights" | "newlyInitialized">): string[] {
  return [...model.weights.keys()].filter((name) => !isHeadParameter(name) && !model.newlyInitialized.includes(name));
}

export interface Model {
  readonly architecture: Architecture;
  /** Leaf tensors in float32 that live until `free`. */
  readonly weights: Weights;
  readonly tokenizer: Tokenizer;
  readonly tokenization: Tokenization;
  /** With canonical, the tokenizer reads the canonical form of every text. Default: none. */
  readonly normalize?: Normalization;
  /** Texts are truncated to this many tokens, special tokens included. */
  readonly maxLength: number;
  readonly labels: readonly string[];
  /** The task that the model was trained on, or null if Temper did not train it. */
  readonly task: string | null;
  readonly folder: string;
  readonly reference: string;
  readonly newlyInitialized: readonly string[];
  /** Computes a model that has no weights: a session of ONNX Runtime with the graph of its file. */
  readonly session?: {
    readonly classifier: Classifier;
    /** The program that computes the graph, with its version. */
    readonly engine: string;
    hash(): Promise<string>;
    readonly exportedFrom: Readonly<Record<string, string>> | null;
  };
}

export function closeModel({ weights, session }: Pick<Model, "weights" | "session">): void {
  free(weights);
  session?.classifier.close();
}

export function countModelParameters(architecture: Architecture): number {
  return [...getParameterShapes(architecture).values()].reduce(
    (sum, shape) => sum + shape.reduce((product, size) => product * size, 1),
    0,
  );
}

/** Counts the FLOPs of the matrix products in a forward pass of texts of one length. */
export function countForwardFlops(
  { hiddenSize, intermediateSize, numHiddenLayers }: EncoderConfig,
  numTexts: number,
  length: number,
): number {
  const projections = 8 * hiddenSize ** 2;
  const scores = 4 * hiddenSize * length;
  const feedForward = 4 * hiddenSize * intermediateSize;
  return numTexts * length * numHiddenLayers * (projections + scores + feedForward);
}
