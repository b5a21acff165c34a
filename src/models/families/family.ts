import type { z } from "zod";
import type { Activation, EmbeddedTokens, ForwardMode, Weights } from "../../nn/index.js";
import type { Tensor } from "../../tensor/index.js";

export interface EncoderConfig {
  readonly modelType: string;
  readonly vocabSize: number;
  readonly hiddenSize: number;
  /** The width of a word embedding. Some families project it to the hidden size. */
  readonly embeddingSize: number;
  readonly numHiddenLayers: number;
  readonly numAttentionHeads: number;
  readonly intermediateSize: number;
  readonly activation: Activation;
  /** Maximum tokens per text: the positions without the unused ones. */
  readonly maxLength: number;
  readonly layerNormEps: number;
  readonly hiddenDropout: number;
  readonly attentionDropout: number;
  /** Null if the head uses hiddenDropout. */
  readonly classifierDropout: number | null;
  readonly padTokenId: number;
  readonly labels: readonly string[];
  readonly initializerRange: number;
  /** True if the decoder of a masked language model is the matrix of word embeddings. */
  readonly tieWordEmbeddings: boolean;
  /** The complete object from the file, including unknown keys. */
  readonly raw: Readonly<Record<string, unknown>>;
  /** The keys of the file whose values are written as floats, such as 2.0. */
  readonly floatKeys: ReadonlySet<string>;
}

/** The shapes of parameters by name, in checkpoint order. */
export type ParameterShapes = Map<string, readonly number[]>;

export interface EmbeddingInput {
  readonly words: Tensor;
  /** The position of each token, broadcast to the words. Null: 0, 1, 2, … */
  readonly positionIds: Tensor | null;
  /** Null if all are 0. */
  readonly tokenTypeIds: Tensor | null;
  /** 0 at tokens, a large negative number at padding: [batch, 1, 1, length], or null. */
  readonly attentionBias: Tensor | null;
}

/**
 * The text embedding of token states: the last hidden state of the classification token
 * (RIFT's paper), a pooler on top of it (RIFT's code), or the mean over all tokens.
 */
export type PoolingMode = "cls" | "pooler" | "mean";

export interface ClassificationHead<Config> {
  pooling(config: Config): PoolingMode;
  getShapes(config: Config, numLabels: number): ParameterShapes;
  /** Computes logits [batch, label] from pooled hidden states [batch, hidden]. */
  apply(config: Config, weights: Weights, pooled: Tensor, mode: ForwardMode): Tensor;
}

/** The head of a masked language model: a transform, then a product with the decoder matrix. */
export interface MaskedLmHead {
  /** The name of the decoder, without `.weight`. */
  readonly decoder: string;
  readonly bias: string | null;
  readonly shapes: ParameterShapes;
  /** [..., hidden] -> [..., embedding]. */
  transform(weights: Weights, hidden: Tensor): Tensor;
}

export interface Pooler {
  getShapes(config: EncoderConfig): ParameterShapes;
  apply(weights: Weights, features: Tensor): Tensor;
}

/** A family of encoders: everything that depends on `model_type`, as pure functions of weights. */
export interface EncoderFamily<Config extends EncoderConfig = EncoderConfig, State = unknown, Raw = unknown> {
  readonly modelType: string;
  /** The start of the class names of transformers: `Bert` as in BertModel. */
  readonly className: string;
  /** The prefix of the encoder's parameter names in a checkpoint with a head. */
  readonly prefix: string;
  /** The name of the word embeddings, without `.weight`. */
  readonly wordEmbeddings: string;
  readonly layerPattern: RegExp;
  readonly finalNorm?: string;
  /** Validates config.json. The defaults are those of transformers. */
  readonly configSchema: z.ZodType<Raw>;
  readConfig(
    raw: Raw,
  ): Omit<Config, "modelType" | "labels" | "initializerRange" | "tieWordEmbeddings" | "raw" | "floatKeys">;
  getShapes(config: Config): ParameterShapes;
  /** The names of the query, key and value projections of an attention. Null: one fused matrix. */
  readonly projections: readonly [string, string, string] | null;
  /** The names of all attentions, each followed by the name of a projection in a checkpoint. */
  listAttentions(config: NoInfer<Config>): string[];
  embed(config: Config, weights: Weights, input: EmbeddingInput, mode: ForwardMode): Tensor;
  /** Computes the embedding layer for tokens in one kernel: [token, hidden], or null without one. */
  readonly embedTokens?: (config: Config, weights: Weights, tokens: EmbeddedTokens, mode: ForwardMode) => Tensor | null;
  /** Computes once what all layers use, such as relative positions. */
  prepare(
    config: NoInfer<Config>,
    weights: Weights,
    embeddingOutput: Tensor,
    attentionBias: Tensor | null,
    mode: ForwardMode,
  ): State;
  /** Texts of at least this many tokens take the same path through the code. Default: 1. */
  readonly uniformLength?: (config: Config) => number;
  /** True if `encodeLayer` also accepts packed texts: all tokens in one row, a Packing as state. */
  readonly packable?: boolean;
  encodeLayer(
    config: NoInfer<Config>,
    weights: Weights,
    input: {
      readonly layer: number;
      readonly hidden: Tensor; // [batch, length, hidden]
      readonly state: State;
      /** True if only the first position of the output is needed. */
      readonly firstOnly: boolean;
    },
    mode: ForwardMode,
  ): Tensor;
  readonly finish?: (config: Config, weights: Weights, hidden: Tensor) => Tensor;
  readonly pooler: Pooler | null;
  readonly classification: ClassificationHead<NoInfer<Config>>;
  maskedLm(config: Config): MaskedLmHead;
}

export function defineFamily<Config extends EncoderConfig, State, Raw>(
  family: EncoderFamily<Config, State, Raw>,
): EncoderFamily {
  return family as unknown as EncoderFamily;
}
