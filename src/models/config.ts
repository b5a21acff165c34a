import { join } from "node:path";
import { z } from "zod";
import { UserError } from "../errors.js";
import { readJson } from "../files.js";
import type { Activation } from "../nn/index.js";
import { validate } from "../validate.js";

/** The tanh form of GELU goes by three names, and so on: what is computed decides, not what it is called. */
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

/** Families whose encoder we compute; the rest of the differences are in the numbers below. */
export const modelTypes = ["bert", "roberta"] as const;
export type ModelType = (typeof modelTypes)[number];

/** What decides an encoder's computation, read from config.json. */
export interface EncoderConfig {
  readonly modelType: ModelType;
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly numHiddenLayers: number;
  readonly numAttentionHeads: number;
  readonly intermediateSize: number;
  readonly activation: Activation;
  /** Rows of the position table. */
  readonly maxPositionEmbeddings: number;
  /** The row of a text's first token: RoBERTa leaves the rows up to its padding token's id unused. */
  readonly positionOffset: number;
  /** Tokens a text may have: positions without the unused ones. */
  readonly maxLength: number;
  readonly typeVocabSize: number;
  readonly layerNormEps: number;
  readonly hiddenDropout: number;
  readonly attentionDropout: number;
  /** Null: the head uses hiddenDropout. */
  readonly classifierDropout: number | null;
  readonly padTokenId: number;
  readonly labels: readonly string[];
  readonly initializerRange: number;
  /** The object as it was read, with everything that we do not know. */
  readonly raw: Readonly<Record<string, unknown>>;
}

const count = z
  .number()
  .int()
  .positive()
  .max(2 ** 31 - 1);
const probability = z.number().min(0).max(1);

/** Defaults are those of transformers, which leaves out of a file what equals them. */
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
    // Labels that are numbers in the data often stand here as such.
    id2label: z.record(z.string().regex(/^\d+$/), z.union([z.string(), z.number().transform(String)])).nullish(),
    num_labels: count.max(100_000).nullish(),
  })
  .refine((raw) => raw.hidden_size % raw.num_attention_heads === 0, {
    path: ["num_attention_heads"],
    error: "expected a divisor of hidden_size",
  });

/** What Temper adds to config.json: how a model it trained reads text and what its head is. */
export const temperMetadataSchema = z.object({
  format: z.literal(2, { error: "expected 2: written by another version of Temper, update this one" }),
  tokenization: z.enum(["subword", "word"]),
  head: z.enum(["hf", "mlp"]),
  pooling: z.enum(["cls", "pooler", "mean"]).default("cls"),
  /** Tokens a text was cut to in training, special tokens included. */
  maxLength: count,
  /** The task it was trained on; null where it has not been trained. */
  task: z.string().min(1).nullable(),
  labels: z.array(z.string()).min(1),
});
export type TemperMetadata = z.output<typeof temperMetadataSchema>;

/** Reads a model folder's config.json. */
export async function readModelConfig(folder: string): Promise<EncoderConfig> {
  const path = join(folder, "config.json");
  return parseModelConfig(await readJson(path, "the model's config"), path);
}

/** Checks a config's content; `where` names it in messages. */
export function parseModelConfig(data: unknown, where: string): EncoderConfig {
  checkModelType(data, where);
  const raw = validate(configSchema, data, where);
  const vocabularySize = raw.vocab_size ?? (raw.model_type === "bert" ? 30522 : 50265);
  const padToken = raw.pad_token_id ?? (raw.model_type === "bert" ? 0 : 1);
  if (padToken >= vocabularySize) {
    throw new UserError(
      `${where}: pad_token_id: expected less than vocab_size (${vocabularySize}), received ${padToken}`,
    );
  }
  const positions = raw.max_position_embeddings;
  const positionOffset = raw.model_type === "bert" ? 0 : padToken + 1;
  if (positions <= positionOffset) {
    throw new UserError(
      `${where}: max_position_embeddings: expected more than the ${positionOffset} unused ones, received ${positions}`,
    );
  }
  return {
    modelType: raw.model_type,
    vocabSize: vocabularySize,
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
    padTokenId: padToken,
    labels: readLabels(raw.id2label, raw.num_labels, where),
    initializerRange: raw.initializer_range,
    raw: data as Record<string, unknown>,
  };
}

/** The model's type comes first: with another architecture, nothing else in the file means anything. */
function checkModelType(data: unknown, where: string): void {
  if (typeof data !== "object" || data === null || Array.isArray(data))
    throw new UserError(`${where}: expected a JSON object`);
  const type = "model_type" in data ? data.model_type : undefined;
  if (modelTypes.some((known) => known === type)) return;
  const received = type === undefined ? "nothing; is this a model's config?" : JSON.stringify(type);
  throw new UserError(`${where}: model_type: supported are ${modelTypes.join(", ")}, received ${received}`);
}

function readLabels(
  byId: Record<string, string> | null | undefined,
  labelCount: number | null | undefined,
  where: string,
): string[] {
  if (byId == null || Object.keys(byId).length === 0)
    return Array.from({ length: labelCount ?? 2 }, (_, id) => `LABEL_${id}`);
  return Object.keys(byId).map((_, id) => {
    const label = byId[String(id)];
    if (label === undefined)
      throw new UserError(`${where}: id2label: expected ids 0 to ${Object.keys(byId).length - 1}, ${id} is missing`);
    return label;
  });
}

/** Temper's own facts of a model, or null for a model that it did not train. */
export function readTemperMetadata(config: EncoderConfig, where: string): TemperMetadata | null {
  return config.raw.temper === undefined ? null : validate(temperMetadataSchema, config.raw.temper, `${where}: temper`);
}

/**
 * The config.json of a model with these labels, for transformers to read too: everything that was there stays, except the number
 * type, which is the weights' own affair now, and the kind of problem: whatever it was, one label of these is right now.
 */
export function toConfigJson(
  config: EncoderConfig,
  labels: readonly string[],
  architectures: readonly string[],
  extra: Readonly<Record<string, unknown>> = {},
): Record<string, unknown> {
  const { torch_dtype: _torchType, dtype: _type, num_labels: _count, problem_type: _problem, ...kept } = config.raw;
  return {
    ...kept,
    architectures: [...architectures],
    id2label: Object.fromEntries(labels.map((label, id) => [String(id), label])),
    label2id: Object.fromEntries(labels.map((label, id) => [label, id])),
    ...extra,
  };
}
