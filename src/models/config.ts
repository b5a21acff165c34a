import { join } from "node:path";
import { z } from "zod";
import { UserError } from "../errors.js";
import { readJson } from "../files.js";
import type { Activation } from "../nn/index.js";
import { validate } from "../validate.js";

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

/** The supported model types of Hugging Face configs. */
export const modelTypes = ["bert", "roberta"] as const;
/** A supported model type. */
export type ModelType = (typeof modelTypes)[number];

/** The architecture of an encoder, from config.json. */
export interface EncoderConfig {
  readonly modelType: ModelType;
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly numHiddenLayers: number;
  readonly numAttentionHeads: number;
  readonly intermediateSize: number;
  readonly activation: Activation;
  /** Rows of the position embedding table. */
  readonly maxPositionEmbeddings: number;
  /**
   * The row of the first token. RoBERTa does not use the rows up to the ID of its padding token.
   */
  readonly positionOffset: number;
  /** Maximum tokens per text: the positions without the unused ones. */
  readonly maxLength: number;
  readonly typeVocabSize: number;
  readonly layerNormEps: number;
  readonly hiddenDropout: number;
  readonly attentionDropout: number;
  /** Null if the head uses hiddenDropout. */
  readonly classifierDropout: number | null;
  readonly padTokenId: number;
  readonly labels: readonly string[];
  readonly initializerRange: number;
  /** The complete object from the file, including unknown keys. */
  readonly raw: Readonly<Record<string, unknown>>;
}

const maxCount = 2 ** 31 - 1;
const count = z.number().int().positive().max(maxCount);
const probability = z.number().min(0).max(1);

/** The defaults are those of transformers, which omits default values when it saves a config. */
const configSchema = z
  .looseObject({
    model_type: z.enum(modelTypes),
    vocab_size: count.optional(),
    hidden_size: count.default(768),
    num_hidden_layers: count.default(12),
    num_attention_heads: count.default(12),
    intermediate_size: count.default(3072),
    hidden_act: z.enum(Object.keys(activations) as (keyof typeof activations)[]).default("gelu"),
    max_position_embeddings: count.default(512),
    type_vocab_size: count.default(2),
    layer_norm_eps: z.number().positive().default(1e-12),
    hidden_dropout_prob: probability.default(0.1),
    attention_probs_dropout_prob: probability.default(0.1),
    classifier_dropout: probability.nullish(),
    pad_token_id: z.number().int().nonnegative().nullish(),
    initializer_range: z.number().nonnegative().default(0.02),
    position_embedding_type: z
      .literal("absolute", { error: 'expected "absolute": relative position embeddings are not supported' })
      .default("absolute"),
    is_decoder: z.literal(false, { error: "expected false: only encoders are supported" }).default(false),
    add_cross_attention: z.literal(false, { error: "expected false: only encoders are supported" }).default(false),
    // Some configs contain numbers as labels.
    id2label: z.record(z.string().regex(/^\d+$/), z.union([z.string(), z.number().transform(String)])).nullish(),
    num_labels: count.max(100_000).nullish(),
  })
  .refine((raw) => raw.hidden_size % raw.num_attention_heads === 0, {
    path: ["num_attention_heads"],
    error: "expected a divisor of hidden_size",
  });

/**
 * The block that Temper adds to config.json: how to tokenize text, and which head the model has.
 */
export const temperMetadataSchema = z.object({
  format: z.literal(2, { error: "expected 2; another version of Temper wrote this file. Update Temper." }),
  tokenization: z.enum(["subword", "word"]),
  head: z.enum(["hf", "mlp"]),
  pooling: z.enum(["cls", "pooler", "mean"]).default("cls"),
  /** Texts were truncated to this many tokens in training, special tokens included. */
  maxLength: count,
  /** The task that the model was trained on, or null. */
  task: z.string().min(1).nullable(),
  labels: z.array(z.string()).min(1),
});
/** The block that Temper adds to config.json. */
export type TemperMetadata = z.output<typeof temperMetadataSchema>;

/** Reads config.json of a model folder. */
export async function readModelConfig(folder: string): Promise<EncoderConfig> {
  const path = join(folder, "config.json");
  return parseModelConfig(await readJson(path, "the model config"), path);
}

/** Validates the content of a config file. `location` names it in error messages. */
export function parseModelConfig(data: unknown, location: string): EncoderConfig {
  checkModelType(data, location);
  const raw = validate(configSchema, data, location);
  const vocabSize = raw.vocab_size ?? (raw.model_type === "bert" ? 30522 : 50265);
  const padTokenId = raw.pad_token_id ?? (raw.model_type === "bert" ? 0 : 1);
  if (padTokenId >= vocabSize)
    throw new UserError(
      `${location}: pad_token_id: expected less than vocab_size (${vocabSize}), received ${padTokenId}`,
    );
  const positions = raw.max_position_embeddings;
  const positionOffset = raw.model_type === "bert" ? 0 : padTokenId + 1;
  if (positions <= positionOffset)
    throw new UserError(
      `${location}: max_position_embeddings: expected more than ${positionOffset}, received ${positions}`,
    );
  return {
    modelType: raw.model_type,
    vocabSize,
    hiddenSize: raw.hidden_size,
    numHiddenLayers: raw.num_hidden_layers,
    numAttentionHeads: raw.num_attention_heads,
    intermediateSize: raw.intermediate_size,
    activation: activations[raw.hidden_act],
    maxPositionEmbeddings: positions,
    positionOffset,
    maxLength: positions - positionOffset,
    typeVocabSize: raw.type_vocab_size,
    layerNormEps: raw.layer_norm_eps,
    hiddenDropout: raw.hidden_dropout_prob,
    attentionDropout: raw.attention_probs_dropout_prob,
    classifierDropout: raw.classifier_dropout ?? null,
    padTokenId,
    labels: readLabels(raw.id2label, raw.num_labels, location),
    initializerRange: raw.initializer_range,
    raw: data as Record<string, unknown>,
  };
}

/** Checks the model type first, because the other keys depend on it. */
function checkModelType(data: unknown, location: string): void {
  if (typeof data !== "object" || data === null || Array.isArray(data))
    throw new UserError(`${location}: expected a JSON object`);
  const type = "model_type" in data ? data.model_type : undefined;
  if (modelTypes.some((known) => known === type)) return;
  const received = type === undefined ? "nothing. Is this a model config?" : JSON.stringify(type);
  throw new UserError(`${location}: model_type: expected ${modelTypes.join(" or ")}, received ${received}`);
}

function readLabels(
  byId: Record<string, string> | null | undefined,
  labelCount: number | null | undefined,
  location: string,
): string[] {
  if (byId == null || Object.keys(byId).length === 0)
    return Array.from({ length: labelCount ?? 2 }, (_, id) => `LABEL_${id}`);
  return Object.keys(byId).map((_, id) => {
    const label = byId[String(id)];
    if (label === undefined)
      throw new UserError(`${location}: id2label: expected ids 0 to ${Object.keys(byId).length - 1}, ${id} is missing`);
    return label;
  });
}

/** Reads the block that Temper added to a config, or null if Temper did not train the model. */
export function readTemperMetadata(config: EncoderConfig, location: string): TemperMetadata | null {
  return config.raw.temper === undefined
    ? null
    : validate(temperMetadataSchema, config.raw.temper, `${location}: temper`);
}

/**
 * Builds the config.json of a model with these labels, readable by transformers. Other keys stay,
 * except the dtype, which the weights file states, and the problem type, because the model now is a
 * single-label classifier.
 */
export function toConfigJson(
  config: EncoderConfig,
  labels: readonly string[],
  architectures: readonly string[],
  extra: Readonly<Record<string, unknown>> = {},
): Record<string, unknown> {
  const { torch_dtype: _torchDtype, dtype: _dtype, num_labels: _count, problem_type: _problem, ...rest } = config.raw;
  return {
    ...rest,
    architectures: [...architectures],
    id2label: Object.fromEntries(labels.map((label, id) => [String(id), label])),
    label2id: Object.fromEntries(labels.map((label, id) => [label, id])),
    ...extra,
  };
}
