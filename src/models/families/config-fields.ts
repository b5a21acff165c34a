import { z } from "zod";
import type { Activation } from "../../nn/index.js";

/** Names of activations in config files. The tanh form of GELU, for example, has three names. */
const activations = {
  gelu: "gelu",
  gelu_python: "gelu",
  gelu_new: "gelu_new",
  gelu_fast: "gelu_new",
  gelu_pytorch_tanh: "gelu_new",
  relu: "relu",
  silu: "silu",
  swish: "silu",
  tanh: "tanh",
} as const satisfies Record<string, Activation>;

const activationNames = Object.keys(activations) as (keyof typeof activations)[];
const maxCount = 2 ** 31 - 1;

export const count = z.number().int().positive().max(maxCount);
export const probability = z.number().min(0).max(1);
export const activation = z.enum(activationNames);
/** The ID of the padding token. Null means the default of the family. */
export const padTokenId = z.number().int().nonnegative().nullish();

export function toActivation(name: z.output<typeof activation>): Activation {
  return activations[name];
}

export const commonFields = {
  model_type: z.string(),
  initializer_range: z.number().nonnegative().default(0.02),
  tie_word_embeddings: z.boolean().default(true),
  is_decoder: z.literal(false, { error: "expected false: only encoders are supported" }).default(false),
  add_cross_attention: z.literal(false, { error: "expected false: only encoders are supported" }).default(false),
  // Some configs contain numbers as labels.
  id2label: z.record(z.string().regex(/^\d+$/), z.union([z.string(), z.number().transform(String)])).nullish(),
  num_labels: count.max(100_000).nullish(),
};

/** Learned positions are the only ones of most families. */
export const absolutePositions = z
  .literal("absolute", { error: 'expected "absolute": relative position embeddings are not supported' })
  .default("absolute");

export const transformerFields = {
  ...commonFields,
  vocab_size: count.default(30522),
  hidden_size: count.default(768),
  num_hidden_layers: count.default(12),
  num_attention_heads: count.default(12),
  intermediate_size: count.default(3072),
  hidden_act: activation.default("gelu"),
  max_position_embeddings: count.default(512),
  type_vocab_size: count.default(2),
  layer_norm_eps: z.number().positive().default(1e-12),
  hidden_dropout_prob: probability.default(0.1),
  attention_probs_dropout_prob: probability.default(0.1),
  classifier_dropout: probability.nullish(),
  pad_token_id: padTokenId,
};

const transformerSchema = z.object(transformerFields);

export function readTransformerFields(raw: z.output<typeof transformerSchema>, defaultPadTokenId: number) {
  return {
    vocabSize: raw.vocab_size,
    hiddenSize: raw.hidden_size,
    embeddingSize: raw.hidden_size,
    numHiddenLayers: raw.num_hidden_layers,
    numAttentionHeads: raw.num_attention_heads,
    intermediateSize: raw.intermediate_size,
    activation: toActivation(raw.hidden_act),
    maxPositionEmbeddings: raw.max_position_embeddings,
    typeVocabSize: raw.type_vocab_size,
    layerNormEps: raw.layer_norm_eps,
    hiddenDropout: raw.hidden_dropout_prob,
    attentionDropout: raw.attention_probs_dropout_prob,
    classifierDropout: raw.classifier_dropout ?? null,
    padTokenId: raw.pad_token_id ?? defaultPadTokenId,
  };
}
