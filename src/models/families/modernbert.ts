import { z } from "zod";
import {
  type Activation,
  activate,
  dense,
  dropout,
  type ForwardMode,
  layerNorm,
  scaledDotProductAttention,
  type Weights,
} from "../../nn/index.js";
import { arange, cat, chunk, operator, type Tensor } from "../../tensor/index.js";
import { mergeHeads, ShapeList, selectFirst } from "./blocks.js";
import { activation, commonFields, count, padTokenId, probability, toActivation } from "./config-fields.js";
import { defineFamily, type EncoderConfig } from "./family.js";
import { computeDistances } from "./relative-positions.js";

type AttentionType = "full_attention" | "sliding_attention";

interface ModernBertConfig extends EncoderConfig {
  readonly layerTypes: readonly AttentionType[];
  readonly ropeTheta: Readonly<Record<AttentionType, number>>;
  /** A sliding attention sees this many tokens on each side. */
  readonly halfWindow: number;
  readonly embeddingDropout: number;
  readonly mlpDropout: number;
  readonly normBias: boolean;
  readonly attentionBias: boolean;
  readonly mlpBias: boolean;
  readonly decoderBias: boolean;
  readonly classifierBias: boolean;
  readonly classifierPooling: "cls" | "mean";
  readonly classifierActivation: Activation;
}

interface AttentionState {
  readonly cos: Tensor; // [length, 1, 1, width]
  readonly sin: Tensor;
  /** Broadcast to [batch, head, query, key], or null. */
  readonly bias: Tensor | null;
}

const prefix = "model.";
const cos = operator<(self: Tensor) => Tensor>("cos");
const sin = operator<(self: Tensor) => Tensor>("sin");
const exp2 = operator<(self: Tensor) => Tensor>("exp2");
const getLayerName = (layer: number): string => `${prefix}layers.${layer}`;

/** The same value that removes padding also removes tokens outside the window. */
const outsideBias = -30000;

/** cos and sin of position · theta^(-2k / width), for each half of a head. */
function computeRotations(length: number, width: number, theta: number, like: Tensor): { cos: Tensor; sin: Tensor } {
  const frequencies = exp2(arange(width / 2, like.device).mul((-2 / width) * Math.log2(theta)));
  const half = arange(length, like.device).unsqueeze(1).mul(frequencies); // [length, width / 2]
  const angles = cat([half, half], 1).reshape(length, 1, 1, width);
  return { cos: cos(angles).to(like.dtype), sin: sin(angles).to(like.dtype) };
}

/** Rotates queries and keys together: [batch, length, 2, head, width]. */
function rotate(tensor: Tensor, state: AttentionState): Tensor {
  const [first, second] = chunk(tensor, 2, -1) as [Tensor, Tensor];
  return tensor.mul(state.cos).add(cat([second.neg(), first], -1).mul(state.sin));
}

function prepareAttention(
  config: ModernBertConfig,
  type: AttentionType,
  hidden: Tensor,
  attentionBias: Tensor | null,
): AttentionState {
  const length = hidden.size(1);
  const width = config.hiddenSize / config.numAttentionHeads;
  const rotations = computeRotations(length, width, config.ropeTheta[type], hidden);
  const isLocal = type === "sliding_attention" && length > config.halfWindow + 1;
  const padding = attentionBias?.to(hidden.dtype) ?? null;
  if (!isLocal) return { ...rotations, bias: padding };
  const window = computeDistances(length, hidden.device)
    .abs()
    .gt(config.halfWindow)
    .to(hidden.dtype)
    .mul(outsideBias)
    .reshape(1, 1, length, length);
  return { ...rotations, bias: padding ? window.add(padding) : window };
}

function attend(
  config: ModernBertConfig,
  weights: Weights,
  name: string,
  hidden: Tensor,
  state: AttentionState,
  mode: ForwardMode,
  firstOnly: boolean,
): Tensor {
  const [batch, length] = hidden.shape as [number, number];
  const width = config.hiddenSize / config.numAttentionHeads;
  const qkv = dense(weights, `${name}.Wqkv`, hidden).reshape(batch, length, 3, config.numAttentionHeads, width);
  const rotated = rotate(qkv.narrow(2, 0, 2), state);
  const toHeads = (tensor: Tensor): Tensor => tensor.transpose(1, 2); // [batch, head, length, width]
  const query = toHeads(selectFirst(rotated.select(2, 0), firstOnly));
  const [key, value] = [toHeads(rotated.select(2, 1)), toHeads(qkv.select(2, 2))];
  const bias = firstOnly && state.bias && state.bias.size(2) > 1 ? state.bias.narrow(2, 0, 1) : state.bias;
  const attention = scaledDotProductAttention(query, key, value, bias, config.attentionDropout, mode);
  return dropout(dense(weights, `${name}.Wo`, mergeHeads(attention)), config.attentionDropout, mode);
}

/** The head of transformers: norm(activation(dense)), before the classifier or the decoder. */
function applyPredictionHead(config: ModernBertConfig, weights: Weights, hidden: Tensor): Tensor {
  const activated = activate(dense(weights, "head.dense", hidden), config.classifierActivation);
  return layerNorm(weights, "head.norm", activated, config.layerNormEps);
}

function listPredictionHead({ hiddenSize, classifierBias, normBias }: ModernBertConfig): ShapeList {
  return new ShapeList()
    .addDense("head.dense", hiddenSize, hiddenSize, classifierBias)
    .addNorm("head.norm", hiddenSize, normBias);
}

const ropeSchema = z
  .looseObject({
    rope_type: z
      .literal("default", { error: 'expected "default": scaled rotary positions are not supported' })
      .default("default"),
    rope_theta: z.number().positive().optional(),
  })
  .nullish();

/** ModernBERT (Warner et al. 2024): rotary positions, local attention, gated feed-forward, pre-norm. */
export const modernbert = defineFamily({
  modelType: "modernbert",
  className: "ModernBert",
  prefix,
  wordEmbeddings: `${prefix}embeddings.tok_embeddings`,
  layerPattern: /^model\.layers\.(\d+)\./,
  finalNorm: `${prefix}final_norm`,
  configSchema: z.looseObject({
    ...commonFields,
    vocab_size: count.default(50368),
    hidden_size: count.default(768),
    intermediate_size: count.default(1152),
    num_hidden_layers: count.default(22),
    num_attention_heads: count.default(12),
    hidden_activation: activation.default("gelu"),
    max_position_embeddings: count.default(8192),
    norm_eps: z.number().positive().default(1e-5),
    norm_bias: z.boolean().default(false),
    attention_bias: z.boolean().default(false),
    attention_dropout: probability.default(0),
    global_attn_every_n_layers: count.default(3),
    layer_types: z.array(z.enum(["full_attention", "sliding_attention"])).nullish(),
    rope_parameters: z.looseObject({ full_attention: ropeSchema, sliding_attention: ropeSchema }).nullish(),
    global_rope_theta: z.number().positive().default(160_000),
    local_rope_theta: z.number().positive().nullish(),
    local_attention: count.default(128),
    embedding_dropout: probability.default(0),
    mlp_bias: z.boolean().default(false),
    mlp_dropout: probability.default(0),
    decoder_bias: z.boolean().default(true),
    classifier_pooling: z.enum(["cls", "mean"]).default("cls"),
    classifier_dropout: probability.default(0),
    classifier_bias: z.boolean().default(false),
    classifier_activation: activation.default("gelu"),
    pad_token_id: padTokenId,
  }),
  readConfig: (raw) => ({
    vocabSize: raw.vocab_size,
    hiddenSize: raw.hidden_size,
    embeddingSize: raw.hidden_size,
    numHiddenLayers: raw.num_hidden_layers,
    numAttentionHeads: raw.num_attention_heads,
    intermediateSize: raw.intermediate_size,
    activation: toActivation(raw.hidden_activation),
    maxLength: raw.max_position_embeddings,
    layerNormEps: raw.norm_eps,
    hiddenDropout: 0,
    attentionDropout: raw.attention_dropout,
    classifierDropout: raw.classifier_dropout,
    padTokenId: raw.pad_token_id ?? 50283,
    layerTypes: Array.from(
      { length: raw.num_hidden_layers },
      (_, i): AttentionType =>
        raw.layer_types?.[i] ?? (i % raw.global_attn_every_n_layers === 0 ? "full_attention" : "sliding_attention"),
    ),
    ropeTheta: {
      full_attention: raw.rope_parameters?.full_attention?.rope_theta ?? raw.global_rope_theta,
      sliding_attention: raw.rope_parameters?.sliding_attention?.rope_theta ?? raw.local_rope_theta ?? 10_000,
    },
    halfWindow: Math.floor(raw.local_attention / 2),
    embeddingDropout: raw.embedding_dropout,
    mlpDropout: raw.mlp_dropout,
    normBias: raw.norm_bias,
    attentionBias: raw.attention_bias,
    mlpBias: raw.mlp_bias,
    decoderBias: raw.decoder_bias,
    classifierBias: raw.classifier_bias,
    classifierPooling: raw.classifier_pooling,
    classifierActivation: toActivation(raw.classifier_activation),
  }),
  getShapes: (config: ModernBertConfig) => {
    const { hiddenSize: hidden, intermediateSize: intermediate, normBias } = config;
    const list = new ShapeList()
      .add(`${prefix}embeddings.tok_embeddings.weight`, config.vocabSize, hidden)
      .addNorm(`${prefix}embeddings.norm`, hidden, normBias);
    for (let i = 0; i < config.numHiddenLayers; i++) {
      const layer = getLayerName(i);
      // The embeddings are normalized already.
      if (i > 0) list.addNorm(`${layer}.attn_norm`, hidden, normBias);
      list.addDense(`${layer}.attn.Wqkv`, 3 * hidden, hidden, config.attentionBias);
      list.addDense(`${layer}.attn.Wo`, hidden, hidden, config.attentionBias);
      list.addNorm(`${layer}.mlp_norm`, hidden, normBias);
      list.addDense(`${layer}.mlp.Wi`, 2 * intermediate, hidden, config.mlpBias);
      list.addDense(`${layer}.mlp.Wo`, hidden, intermediate, config.mlpBias);
    }
    return list.addNorm(`${prefix}final_norm`, hidden, normBias).shapes;
  },
  uniformLength: ({ halfWindow }) => halfWindow + 2,
  projections: null,
  listAttentions: () => [],
  embed: (config, weights, { words }, mode) =>
    dropout(layerNorm(weights, `${prefix}embeddings.norm`, words, config.layerNormEps), config.embeddingDropout, mode),
  prepare: (config, _weights, embeddingOutput, attentionBias) =>
    new Map(
      [...new Set(config.layerTypes)].map((type): [AttentionType, AttentionState] => [
        type,
        prepareAttention(config, type, embeddingOutput, attentionBias),
      ]),
    ),
  encodeLayer: (config, weights, { layer, hidden, state, firstOnly }, mode) => {
    const name = getLayerName(layer);
    const norm = (part: string, input: Tensor): Tensor =>
      layerNorm(weights, `${name}.${part}`, input, config.layerNormEps);
    const attentionState = state.get(config.layerTypes[layer]!)!;
    const input = layer === 0 ? hidden : norm("attn_norm", hidden);
    const attention = attend(config, weights, `${name}.attn`, input, attentionState, mode, firstOnly);
    const attended = selectFirst(hidden, firstOnly).add(attention);
    const [value, gate] = chunk(dense(weights, `${name}.mlp.Wi`, norm("mlp_norm", attended)), 2, -1) as [
      Tensor,
      Tensor,
    ];
    const gated = dropout(activate(value, config.activation).mul(gate), config.mlpDropout, mode);
    return attended.add(dense(weights, `${name}.mlp.Wo`, gated));
  },
  finish: (config, weights, hidden) => layerNorm(weights, `${prefix}final_norm`, hidden, config.layerNormEps),
  pooler: null,
  classification: {
    pooling: (config) => config.classifierPooling,
    getShapes: (config, numLabels) =>
      listPredictionHead(config).addDense("classifier", numLabels, config.hiddenSize).shapes,
    apply: (config, weights, pooled, mode) =>
      dense(
        weights,
        "classifier",
        dropout(applyPredictionHead(config, weights, pooled), config.classifierDropout ?? 0, mode),
      ),
  },
  maskedLm: (config) => ({
    decoder: "decoder",
    bias: config.decoderBias ? "decoder.bias" : null,
    shapes: listPredictionHead(config).shapes,
    transform: (weights, hidden) => applyPredictionHead(config, weights, hidden),
  }),
});
