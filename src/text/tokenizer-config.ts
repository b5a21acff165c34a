import { join } from "node:path";
import { z } from "zod";
import { readJson } from "../files.js";
import { validate } from "../validate.js";
import { type AddedToken, addedTokenFields } from "./added-tokens.js";
import { readVocabulary, type TokenizerSpec } from "./tokenizer-spec.js";

const TOKENIZER_CONFIG = "tokenizer_config.json";
const ADDED_TOKENS = "added_tokens.json";
const SPECIAL_TOKENS_MAP = "special_tokens_map.json";
const defaultFlags = { single_word: false, lstrip: false, rstrip: false };

const specialTokensSchema = z.object({
  additional_special_tokens: z.array(z.union([z.string(), z.looseObject({ content: z.string() })])).nullish(),
});

const configSchema = specialTokensSchema.extend({
  tokenizer_class: z.string().nullish(),
  do_lower_case: z.boolean().nullish(),
  strip_accents: z.boolean().nullish(),
  tokenize_chinese_chars: z.boolean().nullish(),
  add_prefix_space: z.boolean().nullish(),
  added_tokens_decoder: z.record(z.string().regex(/^\d{1,7}$/), z.object(addedTokenFields)).nullish(),
});
type TokenizerConfig = z.output<typeof configSchema>;

/** Classes of transformers that ignore tokenizer_config.json. Those of BERT and RoBERTa use it. */
const genericTokenizerClasses = ["PreTrainedTokenizerFast", "TokenizersBackend"];

/** Applies tokenizer_config.json and the files of added tokens, as transformers does. */
export async function applyTokenizerConfig(
  spec: TokenizerSpec,
  folder: string,
  names: ReadonlySet<string>,
): Promise<TokenizerSpec> {
  const read = async (name: string): Promise<unknown> =>
    names.has(name) ? readJson(join(folder, name), "the tokenizer config") : {};
  const options = validate(configSchema, await read(TOKENIZER_CONFIG), join(folder, TOKENIZER_CONFIG));
  const isGeneric = names.has("tokenizer.json") && genericTokenizerClasses.includes(options.tokenizer_class ?? "");
  const model = isGeneric ? spec.model : applyModelOptions(spec.model, options);
  const decoder = options.added_tokens_decoder;
  const specials = getTokenContents(options);
  if (decoder != null) {
    const tokens = Object.entries(decoder).map(([id, token]) => ({ ...token, id: Number(id) }));
    return { ...spec, model, addedTokens: mergeAddedTokens(spec, tokens, specials) };
  }
  // Like transformers, read the two older files only if the config does not list the added tokens.
  const numbered = [...readVocabulary(await read(ADDED_TOKENS), join(folder, ADDED_TOKENS))];
  const tokens = numbered.map(([content, id]) => ({ ...defaultFlags, content, id, normalized: true }));
  const more = getTokenContents(
    validate(specialTokensSchema, await read(SPECIAL_TOKENS_MAP), join(folder, SPECIAL_TOKENS_MAP)),
  );
  return { ...spec, model, addedTokens: mergeAddedTokens(spec, tokens, [...specials, ...more]) };
}

function getTokenContents({ additional_special_tokens: tokens }: z.output<typeof specialTokensSchema>): string[] {
  return (tokens ?? []).map((token) => (typeof token === "string" ? token : token.content));
}

function applyModelOptions(model: TokenizerSpec["model"], options: TokenizerConfig): TokenizerSpec["model"] {
  if (model.kind === "byte-bpe") return { ...model, addPrefixSpace: options.add_prefix_space ?? model.addPrefixSpace };
  const { normalizer } = model;
  if (normalizer === null) return model;
  return {
    ...model,
    normalizer: {
      ...normalizer,
      lowercase: options.do_lower_case ?? normalizer.lowercase,
      handle_chinese_chars: options.tokenize_chinese_chars ?? normalizer.handle_chinese_chars,
      // Here null is a valid setting: strip accents if lowercase is true.
      strip_accents: options.strip_accents === undefined ? normalizer.strip_accents : options.strip_accents,
    },
  };
}

/** Appends the added tokens that tokenizer.json does not list. */
function mergeAddedTokens(
  { addedTokens: added, vocabulary }: TokenizerSpec,
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
    add({ ...defaultFlags, content, id: next, normalized: false });
    if (all.get(content)!.id === next) next++;
  }
  return [...all.values()];
}
