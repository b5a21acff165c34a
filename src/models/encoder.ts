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
import { projectQkv } from "./fused-weights.js";

/**
 * The input of the encoder, at one of three depths. Attacks on a later one skip the earlier ones.
 */
export type EncoderInput = {
  /**
   * 0 at tokens, a large negative number at padding: [batch, 1, 1, length]. Null without padding.
   */
  readonly attentionBias: Tensor | null;
  /** Token type IDs [batch, length]. Null if all are 0. */
  readonly tokenTypeIds?: Tensor | null;
} & (
  | { /** Token IDs [batch, length]. */ readonly inputIds: Tensor }
  | { /** Word embeddings [batch, length, hidden]; FreeLB and SMART perturb these. */ readonly wordEmbeddings: Tensor }
  | { /** Output of the embedding layer [batch, length, hidden]; ASCC perturbs it. */ readonly embeddingOutput: Tensor }
);

/** Returns the prefix of the encoder's parameter names in a checkpoint with a head. */
export function getParameterPrefix(config: EncoderConfig): string {
  return `${config.modelType}.`;
}

/** Looks up word embeddings: token IDs [..., length] -> [..., length, hidden]. */
export function embedWords(config: EncoderConfig, weights: Weights, ids: Tensor): Tensor {
  return embed(weights, `${getParameterPrefix(config)}embeddings.word_embeddings`, ids);
}

/**
 * Computes the output of the embedding layer for single tokens of type 0 at given positions. The
 * positions are broadcast to the shape of the IDs.
 */
export function embedTokensAt(
  config: EncoderConfig,
  weights: Weights,
  ids: Tensor,
  positionIds: Tensor,
  mode: ForwardMode,
): Tensor {
  const name = `${getParameterPrefix(config)}embeddings.position_embeddings`;
  const positions = embed(weights, name, positionIds.add(config.positionOffset));
  return sumEmbeddings(config, weights, embedWords(config, weights, ids), positions, null, mode);
}

/** Adds word, type and position embeddings, then applies layer normalization and dropout. */
function sumEmbeddings(
  config: EncoderConfig,
  weights: Weights,
  wordEmbeddings: Tensor,
  positions: Tensor,
  tokenTypeIds: Tensor | null,
  mode: ForwardMode,
): Tensor {
  const name = `${getParameterPrefix(config)}embeddings`;
  const types = tokenTypeIds
    ? embed(weights, `${name}.token_type_embeddings`, tokenTypeIds)
    : getParameter(weights, `${name}.token_type_embeddings.weight`).select(0, 0); // [hidden]
  const sum = wordEmbeddings.add(types).add(positions);
  return dropout(layerNorm(weights, `${name}.LayerNorm`, sum, config.layerNormEps), config.hiddenDropout, mode);
}

/** Computes the output of the embedding layer for any input. */
export function embedInput(config: EncoderConfig, weights: Weights, input: EncoderInput, mode: ForwardMode): Tensor {
  if ("embeddingOutput" in input) return input.embeddingOutput;
  const words = "wordEmbeddings" in input ? input.wordEmbeddings : embedWords(config, weights, input.inputIds);
  const table = getParameter(weights, `${getParameterPrefix(config)}embeddings.position_embeddings.weight`);
  const positions = table.narrow(0, config.positionOffset, words.size(-2)); // [length, hidden]
  return sumEmbeddings(config, weights, words, positions, input.tokenTypeIds ?? null, mode);
}

/** The positions to compute in the last layer. A classifier needs only the first one. */
export type OutputPositions = "first" | "all";

/**
 * Applies the transformer layers to the output of the embedding layer. Returns
 * [batch, length, hidden], or [batch, 1, hidden] for the first position only.
 */
export function encodeLayers(
  config: EncoderConfig,
  weights: Weights,
  embeddingOutput: Tensor,
  attentionBias: Tensor | null,
  mode: ForwardMode,
  positions: OutputPositions,
): Tensor {
  let hidden = embeddingOutput;
  for (let layer = 0; layer < config.numHiddenLayers; layer++) {
    const firstOnly = positions === "first" && layer === config.numHiddenLayers - 1;
    const input = hidden;
    const name = `${getParameterPrefix(config)}encoder.layer.${layer}`;
    // Without gradients, the scope frees the tensors of a layer, and the next one reuses cached
    // memory.
    hidden = scope(() => encodeLayer(config, weights, name, input, attentionBias, mode, firstOnly));
  }
  return hidden;
}

function encodeLayer(
  config: EncoderConfig,
  weights: Weights,
  name: string,
  hidden: Tensor,
  attentionBias: Tensor | null,
  mode: ForwardMode,
  firstOnly: boolean,
): Tensor {
  const width = config.hiddenSize / config.numAttentionHeads;
  // [batch, length, hidden] -> [batch, head, length, width]
  const splitHeads = (tensor: Tensor): Tensor =>
    tensor.reshape(tensor.size(0), tensor.size(1), config.numAttentionHeads, width).transpose(1, 2);
  const residual = firstOnly ? hidden.narrow(1, 0, 1) : hidden;
  const qkv = projectQkv(weights, `${name}.attention.self`, hidden, firstOnly).map(splitHeads);
  const [query, key, value] = qkv as [Tensor, Tensor, Tensor];
  const attention = scaledDotProductAttention(query, key, value, attentionBias, config.attentionDropout, mode);
  const context = attention.transpose(1, 2).reshape(residual.size(0), residual.size(1), config.hiddenSize);
  const output = (part: string, input: Tensor, shortcut: Tensor): Tensor =>
    layerNorm(
      weights,
      `${name}.${part}.LayerNorm`,
      dropout(dense(weights, `${name}.${part}.dense`, input), config.hiddenDropout, mode).add(shortcut),
      config.layerNormEps,
    );
  const attended = output("attention.output", context, residual);
  const intermediate = denseWithActivation(weights, `${name}.intermediate.dense`, attended, config.activation);
  return output("output", intermediate, attended);
}

/**
 * Returns the shape of every encoder parameter, in checkpoint order. BERT's pooler is in heads.ts.
 */
export function getEncoderParameterShapes(config: EncoderConfig): Map<string, readonly number[]> {
  const shapes = new Map<string, readonly number[]>();
  const prefix = getParameterPrefix(config);
  const { hiddenSize: hidden, intermediateSize: intermediate } = config;
  const add = (name: string, ...shape: number[]): void => {
    shapes.set(`${prefix}${name}`, shape);
  };
  const addWithBias = (name: string, rows: number, ...columns: number[]): void => {
    add(`${name}.weight`, rows, ...columns);
    add(`${name}.bias`, rows);
  };
  add("embeddings.word_embeddings.weight", config.vocabSize, hidden);
  add("embeddings.position_embeddings.weight", config.maxPositionEmbeddings, hidden);
  add("embeddings.token_type_embeddings.weight", config.typeVocabSize, hidden);
  addWithBias("embeddings.LayerNorm", hidden);
  for (let i = 0; i < config.numHiddenLayers; i++) {
    const layer = `encoder.layer.${i}`;
    for (const part of ["query", "key", "value"]) addWithBias(`${layer}.attention.self.${part}`, hidden, hidden);
    addWithBias(`${layer}.attention.output.dense`, hidden, hidden);
    addWithBias(`${layer}.attention.output.LayerNorm`, hidden);
    addWithBias(`${layer}.intermediate.dense`, intermediate, hidden);
    addWithBias(`${layer}.output.dense`, hidden, intermediate);
    addWithBias(`${layer}.output.LayerNorm`, hidden);
  }
  return shapes;
}
