import { z } from "zod";
import {
  type Activation,
  activate,
  dense,
  dropout,
  embed,
  type ForwardMode,
  getParameter,
  layerNorm,
  scaledDotProductAttention,
  type Weights,
} from "../../nn/index.js";
import { embedding, operator, type Tensor } from "../../tensor/index.js";
import { projectQkv } from "../attention-projections.js";
import { bertLmNames } from "./bert.js";
import {
  addBertLayers,
  applyBertOutput,
  bertLayerPattern,
  embedPositions,
  type LearnedPositions,
  listBertAttentions,
  mergeHeads,
  ShapeList,
  selectFirst,
  splitHeads,
} from "./blocks.js";
import {
  activation,
  count,
  probability,
  readTransformerFields,
  toActivation,
  transformerFields,
} from "./config-fields.js";
import { defineFamily, type EmbeddingInput, type EncoderConfig } from "./family.js";
import { bucketLikeDeberta, computeDistances } from "./relative-positions.js";
import { createMaskedLmHead, getHeadDropout } from "./shared-heads.js";

interface DebertaConfig extends EncoderConfig, LearnedPositions {
  readonly relativeAttention: boolean;
  /** The number of buckets, or 0 if every distance has its own row. */
  readonly positionBuckets: number;
  readonly maxRelativePositions: number;
  /** Rows of relative positions on each side of 0. */
  readonly positionSpan: number;
  /** Content to position, position to content. */
  readonly usesC2p: boolean;
  readonly usesP2c: boolean;
  /** True if positions are projected by the matrices of the content. */
  readonly reusesContentProjections: boolean;
  readonly normalizesPositions: boolean;
  readonly positionBiasedInput: boolean;
  readonly poolerDropout: number;
  readonly poolerActivation: Activation;
  /** The size of the convolution after the first layer, or 0. */
  readonly convKernelSize: number;
  readonly convGroups: number;
  readonly convActivation: Activation;
  /** True for the older head of the masked language model. */
  readonly legacy: boolean;
}

interface DebertaState {
  readonly attentionBias: Tensor | null;
  readonly embeddingOutput: Tensor;
  readonly positions: RelativePositions | null;
}

interface RelativePositions {
  /** Embeddings of the relative positions: [2 span, hidden]. */
  readonly embeddings: Tensor;
  /** The row of each distance from -(length - 1) to length - 1. */
  readonly rows: Tensor;
  /** For query i and key j, the place of their distance in `rows`: [length, length]. */
  readonly index: Tensor;
}

const prefix = "deberta.";
const projections = ["query_proj", "key_proj", "value_proj"] as const;
const conv1d =
  operator<
    (
      input: Tensor,
      weight: Tensor,
      bias: Tensor,
      stride: number[],
      padding: number[],
      dilation: number[],
      groups: number,
    ) => Tensor
  >("conv1d");

function toTokenMask(attentionBias: Tensor, like: Tensor): Tensor {
  return attentionBias.reshape(attentionBias.size(0), attentionBias.size(-1), 1).eq(0).to(like.dtype);
}

function embedDeberta(config: DebertaConfig, weights: Weights, input: EmbeddingInput, mode: ForwardMode): Tensor {
  const name = `${prefix}embeddings`;
  let sum = input.words;
  if (config.positionBiasedInput) sum = sum.add(embedPositions(config, weights, `${name}.position_embeddings`, input));
  if (config.typeVocabSize > 0) {
    const table = `${name}.token_type_embeddings`;
    const types = input.tokenTypeIds && config.typeVocabSize > 1 ? embed(weights, table, input.tokenTypeIds) : null;
    sum = sum.add(types ?? getParameter(weights, `${table}.weight`).select(0, 0));
  }
  if (config.embeddingSize !== config.hiddenSize) sum = dense(weights, `${name}.embed_proj`, sum);
  const normalized = layerNorm(weights, `${name}.LayerNorm`, sum, config.layerNormEps);
  // The convolution reads the positions next to the text, so padding must be 0.
  const masked = input.attentionBias ? normalized.mul(toTokenMask(input.attentionBias, normalized)) : normalized;
  return dropout(masked, config.hiddenDropout, mode);
}

function prepareRelativePositions(config: DebertaConfig, weights: Weights, hidden: Tensor): RelativePositions | null {
  if (!config.relativeAttention || !(config.usesC2p || config.usesP2c)) return null;
  const length = hidden.size(1);
  const { positionBuckets, maxRelativePositions, positionSpan } = config;
  const table = getParameter(weights, `${prefix}encoder.rel_embeddings.weight`);
  const embeddings = config.normalizesPositions
    ? layerNorm(weights, `${prefix}encoder.LayerNorm`, table, config.layerNormEps)
    : table;
  const index = computeDistances(length, hidden.device).add(length - 1);
  // Row i of the last column is the distance i - (length - 1), and the first column has the rest.
  const distances = computeDistances(2 * length - 1, hidden.device)
    .select(1, 0)
    .sub(length - 1);
  const buckets = positionBuckets > 0 ? bucketLikeDeberta(distances, positionBuckets, maxRelativePositions) : distances;
  return { embeddings, rows: buckets.add(positionSpan).clamp(0, 2 * positionSpan - 1), index };
}

function projectPositions(
  config: DebertaConfig,
  weights: Weights,
  name: string,
  { embeddings, rows }: RelativePositions,
  mode: ForwardMode,
): { query: Tensor | null; key: Tensor | null } {
  // The positions are not rows of the batch.
  const input = dropout(embeddings, config.hiddenDropout, { training: mode.training }).unsqueeze(0);
  const [sharedQuery, sharedKey] = config.reusesContentProjections
    ? projectQkv(weights, name, projections, input, (part) => part)
    : [];
  const project = (part: string): Tensor => dense(weights, `${name}.${part}`, input);
  const toHeads = (projected: Tensor): Tensor =>
    splitHeads(embedding(projected.squeeze(0), rows).unsqueeze(0), config.numAttentionHeads).squeeze(0);
  return {
    query: config.usesP2c ? toHeads(sharedQuery ?? project("pos_query_proj")) : null,
    key: config.usesC2p ? toHeads(sharedKey ?? project("pos_key_proj")) : null,
  };
}

/** The unscaled scores of disentangled attention: query with distance, and key with distance. */
function computePositionScores(
  query: Tensor,
  key: Tensor,
  positions: { query: Tensor | null; key: Tensor | null },
  index: Tensor,
): Tensor {
  const [batch, heads, queries] = query.shape as [number, number, number];
  const keys = key.size(2);
  const used = index.narrow(0, 0, queries); // [query, key]
  const expand = (tensor: Tensor): Tensor =>
    tensor.unsqueeze(0).unsqueeze(0).expand(batch, heads, tensor.size(0), tensor.size(1));
  const c2p = positions.key && query.matmul(positions.key.transpose(1, 2)).gather(3, expand(used));
  const p2c =
    positions.query && key.matmul(positions.query.transpose(1, 2)).gather(3, expand(used.t())).transpose(2, 3);
  const scores = c2p && p2c ? c2p.add(p2c) : (c2p ?? p2c);
  return scores!.reshape(batch, heads, queries, keys);
}

function applyConvolution(
  config: DebertaConfig,
  weights: Weights,
  { embeddingOutput, attentionBias }: DebertaState,
  output: Tensor,
  mode: ForwardMode,
): Tensor {
  const name = `${prefix}encoder.conv`;
  const padding = Math.floor((config.convKernelSize - 1) / 2);
  const weight = getParameter(weights, `${name}.conv.weight`);
  const bias = getParameter(weights, `${name}.conv.bias`);
  const input = embeddingOutput.transpose(1, 2).contiguous();
  const convolved = conv1d(input, weight, bias, [1], [padding], [1], config.convGroups).transpose(1, 2);
  const mask = attentionBias ? toTokenMask(attentionBias, convolved) : null;
  const masked = mask ? convolved.mul(mask) : convolved;
  const activated = activate(dropout(masked, config.hiddenDropout, mode), config.convActivation);
  const normalized = layerNorm(weights, `${name}.LayerNorm`, output.add(activated), config.layerNormEps);
  return mask ? normalized.mul(mask) : normalized;
}

/** DeBERTa-v2 and v3 (He et al. 2021): attention with separate scores for content and position. */
export const debertaV2 = defineFamily({
  modelType: "deberta-v2",
  className: "DebertaV2",
  prefix,
  wordEmbeddings: `${prefix}embeddings.word_embeddings`,
  layerPattern: bertLayerPattern,
  configSchema: z.looseObject({
    ...transformerFields,
    vocab_size: count.default(128100),
    hidden_size: count.default(1536),
    num_hidden_layers: count.default(24),
    num_attention_heads: count.default(24),
    intermediate_size: count.default(6144),
    embedding_size: count.nullish(),
    type_vocab_size: z.number().int().nonnegative().default(0),
    layer_norm_eps: z.number().positive().default(1e-7),
    relative_attention: z.boolean().default(false),
    max_relative_positions: z.number().int().default(-1),
    position_buckets: z.number().int().default(-1),
    position_biased_input: z.boolean().default(true),
    pos_att_type: z.union([z.string(), z.array(z.string())]).nullish(),
    share_att_key: z.boolean().default(false),
    norm_rel_ebd: z.string().default("none"),
    pooler_dropout: probability.default(0),
    pooler_hidden_act: activation.default("gelu"),
    cls_dropout: probability.nullish(),
    conv_kernel_size: z.number().int().nonnegative().default(0),
    conv_groups: count.default(1),
    conv_act: activation.default("tanh"),
    legacy: z.boolean().default(true),
  }),
  readConfig: (raw) => {
    const attention = raw.pos_att_type ?? [];
    const types = (typeof attention === "string" ? attention.split("|") : attention).map((type) =>
      type.trim().toLowerCase(),
    );
    const positionBuckets = Math.max(0, raw.position_buckets);
    const maxRelativePositions =
      raw.max_relative_positions < 1 ? raw.max_position_embeddings : raw.max_relative_positions;
    return {
      ...readTransformerFields(raw, 0),
      embeddingSize: raw.embedding_size ?? raw.hidden_size,
      classifierDropout: raw.cls_dropout ?? null,
      positionOffset: 0,
      maxLength: raw.max_position_embeddings,
      relativeAttention: raw.relative_attention,
      positionBuckets,
      maxRelativePositions,
      positionSpan: positionBuckets > 0 ? positionBuckets : maxRelativePositions,
      usesC2p: types.includes("c2p"),
      usesP2c: types.includes("p2c"),
      reusesContentProjections: raw.share_att_key,
      normalizesPositions: raw.norm_rel_ebd.toLowerCase().includes("layer_norm"),
      positionBiasedInput: raw.position_biased_input,
      poolerDropout: raw.pooler_dropout,
      poolerActivation: toActivation(raw.pooler_hidden_act),
      convKernelSize: raw.conv_kernel_size,
      convGroups: raw.conv_groups,
      convActivation: toActivation(raw.conv_act),
      legacy: raw.legacy,
    };
  },
  getShapes: (config: DebertaConfig) => {
    const { hiddenSize: hidden, embeddingSize } = config;
    const list = new ShapeList(prefix).add("embeddings.word_embeddings.weight", config.vocabSize, embeddingSize);
    if (config.positionBiasedInput)
      list.add("embeddings.position_embeddings.weight", config.maxPositionEmbeddings, embeddingSize);
    if (config.typeVocabSize > 0)
      list.add("embeddings.token_type_embeddings.weight", config.typeVocabSize, embeddingSize);
    if (embeddingSize !== hidden) list.addDense("embeddings.embed_proj", hidden, embeddingSize, false);
    list.addNorm("embeddings.LayerNorm", hidden);
    const separate = config.relativeAttention && !config.reusesContentProjections;
    addBertLayers(list, config, [
      ...projections,
      ...(separate && config.usesC2p ? ["pos_key_proj"] : []),
      ...(separate && config.usesP2c ? ["pos_query_proj"] : []),
    ]);
    if (config.relativeAttention) list.add("encoder.rel_embeddings.weight", 2 * config.positionSpan, hidden);
    if (config.normalizesPositions) list.addNorm("encoder.LayerNorm", hidden);
    if (config.convKernelSize > 0)
      list
        .add("encoder.conv.conv.weight", hidden, hidden / config.convGroups, config.convKernelSize)
        .add("encoder.conv.conv.bias", hidden)
        .addNorm("encoder.conv.LayerNorm", hidden);
    return list.shapes;
  },
  projections,
  listAttentions: (config) => listBertAttentions(config, prefix),
  embed: embedDeberta,
  prepare: (config, weights, embeddingOutput, attentionBias): DebertaState => ({
    attentionBias,
    embeddingOutput,
    positions: prepareRelativePositions(config, weights, embeddingOutput),
  }),
  encodeLayer: (config, weights, { layer, hidden, state, firstOnly }, mode) => {
    const name = `${prefix}encoder.layer.${layer}`;
    const attentionName = `${name}.attention.self`;
    const hasConvolution = layer === 0 && config.convKernelSize > 0;
    const queryFirst = firstOnly && !hasConvolution;
    const residual = selectFirst(hidden, queryFirst);
    const qkv = projectQkv(weights, attentionName, projections, hidden, (part) => selectFirst(part, queryFirst));
    const [query, key, value] = qkv.map((part) => splitHeads(part, config.numAttentionHeads)) as typeof qkv;
    // All scores have the same scale: sqrt(width * number of kinds of scores).
    const kinds = 1 + Number(config.usesC2p) + Number(config.usesP2c);
    let bias = state.attentionBias;
    if (state.positions) {
      const positions = projectPositions(config, weights, attentionName, state.positions, mode);
      const scores = computePositionScores(query, key, positions, state.positions.index);
      const scaled = scores.mul(1 / Math.sqrt(query.size(3) * kinds));
      bias = bias ? scaled.add(bias.to(scaled.dtype)) : scaled;
    }
    const scaledQuery = kinds === 1 ? query : query.mul(1 / Math.sqrt(kinds));
    const attention = scaledDotProductAttention(scaledQuery, key, value, bias, config.attentionDropout, mode);
    const output = applyBertOutput(config, weights, name, mergeHeads(attention), residual, mode);
    return hasConvolution ? selectFirst(applyConvolution(config, weights, state, output, mode), firstOnly) : output;
  },
  pooler: null,
  classification: {
    pooling: () => "cls",
    getShapes: ({ hiddenSize }, numLabels) =>
      new ShapeList().addDense("pooler.dense", hiddenSize, hiddenSize).addDense("classifier", numLabels, hiddenSize)
        .shapes,
    apply: (config, weights, pooled, mode) => {
      const context = dense(weights, "pooler.dense", dropout(pooled, config.poolerDropout, mode));
      const hidden = activate(context, config.poolerActivation);
      return dense(weights, "classifier", dropout(hidden, getHeadDropout(config), mode));
    },
  },
  maskedLm: (config) => {
    if (config.legacy) return createMaskedLmHead(bertLmNames, config, config.embeddingSize, config.activation);
    const name = "lm_predictions.lm_head";
    const names = {
      // The newer head is always tied to the word embeddings.
      decoder: `${prefix}embeddings.word_embeddings`,
      bias: `${name}.bias`,
      dense: `${name}.dense`,
      norm: `${name}.LayerNorm`,
    };
    return createMaskedLmHead(names, config, config.hiddenSize, config.activation);
  },
});
