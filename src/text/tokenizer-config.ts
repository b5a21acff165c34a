import { join } from "node:path";
import { z } from "zod";
import { readJson } from "../base/files.js";
import { validate } from "../base/validate.js";
import { type AddedToken, addedTokenFields, createSpecialToken, readVocabulary } from "./added-tokens.js";
import type { Normalizer, PreTokenizer } from "./tokenizer-components.js";
import type { TokenizerFile } from "./tokenizer-file.js";

const TOKENIZER_CONFIG = "tokenizer_config.json";
const ADDED_TOKENS = "added_tokens.json";
const SPECIAL_TOKENS_MAP = "special_tokens_map.json";

const tokenName = z.union([z.string(), z.looseObject({ content: z.string() })]);
const specialTokensSchema = z.object({
  pad_token: tokenName.nullish(),
  unk_token: tokenName.nullish(),
  mask_token: tokenName.nullish(),
  additional_special_tokens: z.array(tokenName).nullish(),
});

const option = z.boolean().nullish();
const configSchema = specialTokensSchema.extend({
  tokenizer_class: z.string().nullish(),
  do_lower_case: option,
  strip_accents: option,
  tokenize_chinese_chars: option,
  add_prefix_space: option,
  split_by_punct: option,
  added_tokens_decoder: z.record(z.string().regex(/^\d{1,7}$/), z.object(addedTokenFields)).nullish(),
});

/** Settings of the tokenizer in the other files of its folder. */
export interface TokenizerConfig {
  readonly options: z.output<typeof configSchema>;
  readonly specialTokens: { readonly [role in "pad_token" | "unk_token" | "mask_token"]: string | null };
  readonly additionalSpecialTokens: readonly string[];
}

/** A folder that has only a tokenizer. */
export const emptyTokenizerConfig: TokenizerConfig = {
  options: {},
  specialTokens: { pad_token: null, unk_token: null, mask_token: null },
  additionalSpecialTokens: [],
};

/** Classes of transformers that ignore tokenizer_config.json. Those of BERT and RoBERTa use it. */
const genericTokenizerClasses = ["PreTrainedTokenizerFast", "TokenizersBackend"];

/** Reads tokenizer_config.json and special_tokens_map.json. */
export async function readTokenizerConfig(folder: string, names: ReadonlySet<string>): Promise<TokenizerConfig> {
  const read = async <Schema extends z.ZodType>(name: string, schema: Schema): Promise<z.output<Schema>> =>
    validate(
      schema,
      names.has(name) ? await readJson(join(folder, name), "the tokenizer config", { kind: "tokenizer" }) : {},
      join(folder, name),
    );
  const options = await read(TOKENIZER_CONFIG, configSchema);
  const map = await read(SPECIAL_TOKENS_MAP, specialTokensSchema);
  const getName = (role: keyof TokenizerConfig["specialTokens"]): string | null =>
    getContent(options[role] ?? map[role] ?? null);
  // Like transformers, read the older file only if the config does not list the added tokens.
  const older = options.added_tokens_decoder == null ? (map.additional_special_tokens ?? []) : [];
  return {
    options,
    specialTokens: {
      pad_token: getName("pad_token"),
      unk_token: getName("unk_token"),
      mask_token: getName("mask_token"),
    },
    additionalSpecialTokens: [...(options.additional_special_tokens ?? []), ...older].map(
      (token) => getContent(token)!,
    ),
  };
}

function getContent(token: z.output<typeof tokenName> | null): string | null {
  return token === null || typeof token === "string" ? token : token.content;
}

/** Applies tokenizer_config.json and the files of added tokens, as transformers does. */
export async function applyTokenizerConfig(
  file: TokenizerFile,
  config: TokenizerConfig,
  folder: string,
  names: ReadonlySet<string>,
): Promise<TokenizerFile> {
  const { options } = config;
  const isGeneric = names.has("tokenizer.json") && genericTokenizerClasses.includes(options.tokenizer_class ?? "");
  const configured = isGeneric ? file : applyModelOptions(file, options);
  const decoder = options.added_tokens_decoder;
  const tokens = decoder
    ? Object.entries(decoder).map(([id, token]) => ({ id: Number(id), ...token }))
    : await readAddedTokens(folder, names);
  return { ...configured, addedTokens: mergeAddedTokens(file, tokens, config.additionalSpecialTokens) };
}

async function readAddedTokens(folder: string, names: ReadonlySet<string>): Promise<AddedToken[]> {
  if (!names.has(ADDED_TOKENS)) return [];
  const path = join(folder, ADDED_TOKENS);
  const numbered = await readJson(path, "the tokenizer config", { kind: "tokenizer" });
  const tokens = [...readVocabulary(numbered, path)].map(([content, id]) => createSpecialToken(content, id));
  return tokens.map((token) => ({ ...token, normalized: true, special: false }));
}

function applyModelOptions(file: TokenizerFile, options: TokenizerConfig["options"]): TokenizerFile {
  const normalizers = file.normalizers.map(
    (item): Normalizer =>
      item.type !== "BertNormalizer"
        ? item
        : {
            ...item,
            lowercase: options.do_lower_case ?? item.lowercase,
            handle_chinese_chars: options.tokenize_chinese_chars ?? item.handle_chinese_chars,
            // Here null is a valid setting: strip accents if lowercase is true.
            strip_accents: options.strip_accents === undefined ? item.strip_accents : options.strip_accents,
          },
  );
  const preTokenizers = file.preTokenizers.map(
    (item): PreTokenizer =>
      item.type !== "ByteLevel"
        ? item
        : { ...item, add_prefix_space: options.add_prefix_space ?? item.add_prefix_space },
  );
  return { ...file, normalizers, preTokenizers };
}

/** Appends the added tokens that tokenizer.json does not list. */
function mergeAddedTokens(
  { addedTokens: added, model: { vocabulary } }: TokenizerFile,
  tokens: readonly AddedToken[],
  specials: readonly string[],
): AddedToken[] {
  const all = new Map(added.map((token) => [token.content, token]));
  const add = (token: AddedToken): void => {
    if (!all.has(token.content)) all.set(token.content, { ...token, id: vocabulary.get(token.content) ?? token.id });
  };
  tokens.forEach(add);
  // A special token without an ID gets the next one.
  let next =
    1 + [...vocabulary.values(), ...[...all.values()].map(({ id }) => id)].reduce((max, id) => Math.max(max, id), -1);
  for (const content of specials) {
    add(createSpecialToken(content, next));
    if (all.get(content)!.id === next) next++;
  }
  return [...all.values()];
}
