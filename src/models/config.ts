import { join } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import { readJson, readText } from "../base/files.js";
import { validate } from "../base/validate.js";
import { normalizations } from "../text/canonical-tokenizer.js";
import { tokenizations } from "../text/encoding.js";
import { commonFields, count } from "./families/config-fields.js";
import type { EncoderConfig } from "./families/family.js";
import { getFamily, modelTypes } from "./families/index.js";

/** The block that Temper adds to config.json: how to tokenize text, and the head. */
export const temperMetadataSchema = z.object({
  format: z.literal(2, { error: "expected 2; another version of Temper wrote this file. Update Temper." }),
  tokenization: z.enum(tokenizations),
  normalize: z.enum(normalizations).optional(),
  head: z.enum(["hf", "mlp"]),
  pooling: z.enum(["cls", "pooler", "mean"]).default("cls"),
  /** Texts were truncated to this many tokens in training, special tokens included. */
  maxLength: count,
  /** SHA-256 of the files of weights, by name. Models of older versions have none. */
  sha256: z.record(z.string(), z.string()).optional(),
  task: z.string().min(1).nullable(),
  labels: z
    .array(z.string())
    .min(1)
    .refine((labels) => findRepeated(labels) === undefined, { error: "expected a different name for each class" }),
  /** SHA-256 of the parts of the model that was exported, if the folder has an ONNX file instead. */
  exportedFrom: z.object({ model: z.string(), tokenizer: z.string() }).optional(),
  note: z.string().optional(),
  /** True if the model classifies parts of a text, whose votes Temper counts. */
  votes: z.literal(true).optional(),
});
export type TemperMetadata = z.output<typeof temperMetadataSchema>;

export async function readModelConfig(folder: string): Promise<EncoderConfig> {
  const path = join(folder, "config.json");
  const data = await readJson(path, "the model config", { kind: "settings" });
  return parseModelConfig(data, path, findFloatKeys(await readText(path, "the model config", { kind: "settings" })));
}

const commonSchema = z.object(commonFields);

export function parseModelConfig(
  data: unknown,
  location: string,
  floatKeys: ReadonlySet<string> = new Set(),
): EncoderConfig {
  const modelType = checkModelType(data, location);
  const family = getFamily({ modelType });
  const raw = validate(family.configSchema, data, location);
  const common = commonSchema.parse(raw);
  const config: EncoderConfig = {
    modelType,
    ...family.readConfig(raw),
    labels: readLabels(common.id2label, common.num_labels, location),
    initializerRange: common.initializer_range,
    tieWordEmbeddings: common.tie_word_embeddings,
    raw: data as Record<string, unknown>,
    floatKeys,
  };
  checkSizes(config, location);
  return config;
}

/** The list of parameters grows with the layers before a file is read, so the number is limited. */
const maxLayers = 1000;

function checkSizes(
  { vocabSize, padTokenId, hiddenSize, numAttentionHeads, ...config }: EncoderConfig,
  location: string,
) {
  if (hiddenSize % numAttentionHeads !== 0)
    throw new UserError(
      `${location}: num_attention_heads: expected a divisor of hidden_size, received ${numAttentionHeads}`,
    );
  if (config.numHiddenLayers > maxLayers)
    throw new UserError(
      `${location}: num_hidden_layers: expected at most ${maxLayers}, received ${config.numHiddenLayers}`,
    );
  if (padTokenId >= vocabSize)
    throw new UserError(
      `${location}: pad_token_id: expected less than vocab_size (${vocabSize}), received ${padTokenId}`,
    );
  if (config.maxLength < 1) {
    const positions = Number(config.raw.max_position_embeddings);
    const unused = positions - config.maxLength;
    throw new UserError(`${location}: max_position_embeddings: expected more than ${unused}, received ${positions}`);
  }
}

/** Model types of decoders, which people often try. They have no bidirectional encoder. */
const decoderTypes = /^(gpt|opt$|llama|mistral|mixtral|qwen|gemma|phi|falcon|bloom|olmo|deepseek|smollm|granite)/;

/** Checks the model type first, because the other keys depend on it. */
function checkModelType(data: unknown, location: string): string {
  if (typeof data !== "object" || data === null || Array.isArray(data))
    throw new UserError(`${location}: expected a JSON object`);
  const type = "model_type" in data ? data.model_type : undefined;
  if (typeof type === "string" && modelTypes.includes(type)) return type;
  const received = type === undefined ? "nothing. Is this a model config?" : JSON.stringify(type);
  const architectures =
    "architectures" in data && Array.isArray(data.architectures) ? data.architectures.join(" ") : "";
  const isDecoder = (typeof type === "string" && decoderTypes.test(type)) || architectures.includes("ForCausalLM");
  const reason = isDecoder
    ? ". It is a decoder-only model: each token sees only the tokens before it, so it has no encoding of a text to " +
      "fine-tune. Use an encoder."
    : "";
  throw new UserError(
    `${location}: model_type: expected one of ${modelTypes.join(", ")}, received ${received}${reason}`,
  );
}

function readLabels(
  byId: Record<string, string> | null | undefined,
  labelCount: number | null | undefined,
  location: string,
): string[] {
  if (byId == null || Object.keys(byId).length === 0)
    return Array.from({ length: labelCount ?? 2 }, (_, id) => `LABEL_${id}`);
  const labels = Object.keys(byId).map((_, id) => {
    const label = byId[String(id)];
    if (label === undefined)
      throw new UserError(`${location}: id2label: expected ids 0 to ${Object.keys(byId).length - 1}, ${id} is missing`);
    return label;
  });
  const repeated = findRepeated(labels);
  if (repeated !== undefined)
    throw new UserError(
      `${location}: id2label: expected a different name for each class, received ${JSON.stringify(repeated)} twice. ` +
        "Rename one of them.",
    );
  return labels;
}

function findRepeated(labels: readonly string[]): string | undefined {
  const seen = new Set<string>();
  return labels.find((label) => seen.size === seen.add(label).size);
}

export function readTemperMetadata(config: EncoderConfig, location: string): TemperMetadata | null {
  return config.raw.temper === undefined
    ? null
    : validate(temperMetadataSchema, config.raw.temper, `${location}: temper`);
}

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

/** Finds the keys of a JSON file whose values are whole numbers written as floats, such as 2.0. */
function findFloatKeys(text: string): ReadonlySet<string> {
  return new Set(
    [...text.matchAll(/"(\w+)"\s*:\s*-?\d+(?:\.0+)?(?:e[+-]?\d+)?(?=[\s,}])/gi)].flatMap(([entry, key]) =>
      /[.e][^"]*$/i.test(entry) ? [key!] : [],
    ),
  );
}

/** Writes a config with its floats: transformers rejects 2 for a key that must be 2.0. */
export function formatConfigJson(json: Readonly<Record<string, unknown>>, floatKeys: ReadonlySet<string>): string {
  const toFloat = (line: string, key: string): string => (floatKeys.has(key) ? `${line}.0` : line);
  return `${JSON.stringify(json, null, 2).replace(/^ *"(\w+)": -?\d+(?=,?$)/gm, toFloat)}\n`;
}
