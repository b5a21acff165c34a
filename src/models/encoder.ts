import {
  dense,
  denseWithActivation,
  dropout,
  embed,
  type ForwardMode,
  getParameter,
  layerNorm,
  scaledDotProductAttention,
  type Weights,
} from "../nn/index.js";
import { scope, type Tensor } from "../tensor/index.js";
import type { EncoderConfig } from "./config.js";
import { projectQkv } from "./fused-qkv.js";

/** What the encoder reads, at one of three depths: an attack on a later one leaves the earlier ones out. */
export type EncoderInput = {
  /** [batch, 1, 1, length]: 0 at text, a large negative number at padding; null where nothing is padded. */
  readonly attentionBias: Tensor | null;
  /** Token type ids [batch, length]; null: all 0. */
  readonly tokenTypeIds?: Tensor | null;
} & (
  | { /** Token ids [batch, length]. */ readonly inputIds: Tensor }
  | { /** Word embeddings [batch, length, hidden] (FreeLB and SMART perturb these). */ readonly wordEmbeddings: Tensor }
  | {
      /** The embedding layer's output [batch, length, hidden] (ASCC perturbs this). */ readonly embeddingOutput: Tensor;
    }
);

/** The names' prefix in a checkpoint with a head. */
export function getParameterPrefix(config: EncoderConfig): string {
  return `${config.modelType}.`;
}

/** Word embeddings of token ids: [..., length] -> [..., length, hidden]. */
export function embedWords(config: EncoderConfig, weights: Weights, ids: Tensor): Tensor {
  return embed(weights, `${getParameterPrefix(config)}embeddings.word_embeddings`, ids);
}

/** The embedding layer over word embeddings [..., length, hidden]: position and type added, normalised, dropped out. */
export function applyEmbeddingLayer(
  config: EncoderConfig,
  weights: Weights,
  words: Tensor,
  types: Tensor | null,
  mode: ForwardMode,
): Tensor {
  const table = getParameter(weights, `${getParameterPrefix(config)}embeddings.position_embeddings.weight`);
  const positions = table.narrow(0, config.positionOffset, words.size(-2)); // [length, hidden]
  return sumEmbeddings(config, weights, words, positions, types, mode);
}

/** The embedding layer's output for single tokens of type 0 at given places of a text: ids [...], places broadcast to them. */
export function embedTokensAt(
  config: EncoderConfig,
  weights: Weights,
  ids: Tensor,
  places: Tensor,
  mode: ForwardMode,
): Tensor {
  const positions = embed(
    weights,
    `${getParameterPrefix(config)}embeddings.position_embeddings`,
    places.add(config.positionOffset),
  );
  return sumEmbeddings(config, weights, embedWords(config, weights, ids), positions, null, mode);
}

function sumEmbeddings(
  config: EncoderConfig,
  weights: Weights,
  words: Tensor,
  positions: Tensor,
  types: Tensor | null,
  mode: ForwardMode,
): Tensor {
  const name = `${getParameterPrefix(config)}embeddings`;
  const typed = types
    ? embed(weights, `${name}.token_type_embeddings`, types)
    : getParameter(weights, `${name}.token_type_embeddings.weight`).select(0, 0); // [hidden]
  const sum = words.add(typed).add(positions);
  return dropout(layerNorm(weights, `${name}.LayerNorm`, sum, config.layerNormEps), config.hiddenDropout, mode);
}

/** The embedding layer's output for any input. */
export function embedInput(config: EncoderConfig, weights: Weights, input: EncoderInput, mode: ForwardMode): Tensor {
  if ("embeddingOutput" in input) return input.embeddingOutput;
  const words = "wordEmbeddings" in input ? input.wordEmbeddings : embedWords(config, weights, input.inputIds);
  return applyEmbeddingLayer(config, weights, words, input.tokenTypeIds ?? null, mode);
}

/** Which positions of the last layer are wanted: a classifier reads the first alone, which spares most of that layer's work. */
export type OutputPositions = "first" | "all";

/**
 * The transformer layers over the embedding layer's output: [batch, length, hidden], or [batch, 1, hidden] where only the first
 * position is wanted.
 */
export function encodeLayers(
  config: EncoderConfig,
  weights: Weights,
  embedded: Tensor,
  bias: Tensor | null,
  mode: ForwardMode,
  wanted: OutputPositions,
): Tensor {
  let hidden = embedded;
  for (let layer = 0; layer < config.numHiddenLayers; layer++) {
    const first = wanted === "first" && layer === config.numHiddenLayers - 1;
    const below = hidden;
    // What a layer made goes with it, unless a gradient needs it: the next one finds that memory in the cache.
    hidden = scope(() =>
      encodeLayer(config, weights, `${getParameterPrefix(config)}encoder.layer.${layer}`, below, bias, mode, first),
    );
  }
  return hidden;
}

function encodeLayer(
  config: EncoderConfig,
  weights: Weights,
  name: string,
  hidden: Tensor,
  bias: Tensor | null,
  mode: ForwardMode,
  first: boolean,
): Tensor {
  const width = config.hiddenSize / config.numAttentionHeads;
  const split = (tensor: Tensor): Tensor =>
    tensor.reshape(tensor.size(0), tensor.size(1), config.numAttentionHeads, width).transpose(1, 2); // [batch, head, length, width]
  const asking = first ? hidden.narrow(1, 0, 1) : hidden;
  const [query, key, value] = projectQkv(weights, `${name}.attention.self`, hidden, first).map(split) as [
    Tensor,
    Tensor,
    Tensor,
  ];
  const attended = scaledDotProductAttention(query, key, value, bias, config.attentionDropout, mode).transpose(1, 2);
  const context = attended.reshape(asking.size(0), asking.size(1), config.hiddenSize);
  const output = (part: string, input: Tensor, residual: Tensor): Tensor =>
    layerNorm(
      weights,
      `${name}.${part}.LayerNorm`,
      dropout(dense(weights, `${name}.${part}.dense`, input), config.hiddenDropout, mode).add(residual),
      config.layerNormEps,
    );
  const middle = output("attention.output", context, asking);
  return output(
    "output",
    denseWithActivation(weights, `${name}.intermediate.dense`, middle, config.activation),
    middle,
  );
}

/** Every parameter of an encoder with its shape, in checkpoint order. The pooler is BERT's own head and stands in heads.ts. */
export function getEncoderParameterShapes(config: EncoderConfig): Map<string, readonly number[]> {
  const shapes = new Map<string, readonly number[]>();
  const prefix = getParameterPrefix(config);
  const { hiddenSize: hidden, intermediateSize: intermediate } = config;
  const add = (name: string, ...shape: number[]): void => {
    shapes.set(`${prefix}${name}`, shape);
  };
  const both = (name: string, rows: number, columns?: number): void => {
    if (columns === undefined) add(`${name}.weight`, rows);
    else add(`${name}.weight`, rows, columns);
    add(`${name}.bias`, rows);
  };
  add("embeddings.word_embeddings.weight", config.vocabSize, hidden);
  add("embeddings.position_embeddings.weight", config.maxPositionEmbeddings, hidden);
  add("embeddings.token_type_embeddings.weight", config.typeVocabSize, hidden);
  both("embeddings.LayerNorm", hidden);
  for (let i = 0; i < config.numHiddenLayers; i++) {
    const layer = `encoder.layer.${i}`;
    for (const part of ["query", "key", "value"]) both(`${layer}.attention.self.${part}`, hidden, hidden);
    both(`${layer}.attention.output.dense`, hidden, hidden);
    both(`${layer}.attention.output.LayerNorm`, hidden);
    both(`${layer}.intermediate.dense`, intermediate, hidden);
    both(`${layer}.output.dense`, hidden, intermediate);
    both(`${layer}.output.LayerNorm`, hidden);
  }
  return shapes;
}
