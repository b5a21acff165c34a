import { join } from "node:path";
import { z } from "zod";
import { readJson } from "../files.js";
import { validate } from "../validate.js";
import type { AddedToken } from "./added-tokens.js";
import type { TokenizerSpec } from "./tokenizer-spec.js";
import { readVocabulary } from "./vocabulary-files.js";

const TOKENIZER_CONFIG = "tokenizer_config.json";
const ADDED_TOKENS = "added_tokens.json";
const SPECIAL_TOKENS_MAP = "special_tokens_map.json";
const simple = { single_word: false, lstrip: false, rstrip: false };

const specialsSchema = z.object({
  additional_special_tokens: z.array(z.union([z.string(), z.looseObject({ content: z.string() })])).nullish(),
});

const optionsSchema = specialsSchema.extend({
  tokenizer_class: z.string().nullish(),
  do_lower_case: z.boolean().nullish(),
  strip_accents: z.boolean().nullish(),
  tokenize_chinese_chars: z.boolean().nullish(),
  add_prefix_space: z.boolean().nullish(),
  added_tokens_decoder: z
    .record(
      z.string().regex(/^\d{1,7}$/),
      z.object({
        content: z.string(),
        single_word: z.boolean().default(false),
        lstrip: z.boolean().default(false),
        rstrip: z.boolean().default(false),
        normalized: z.boolean().default(false),
      }),
    )
    .nullish(),
});
type TokenizerConfig = z.output<typeof optionsSchema>;

/** Classes of transformers that take tokenizer.json as it is; those of BERT and RoBERTa let the options decide. */
const genericTokenizerClasses = ["PreTrainedTokenizerFast", "TokenizersBackend"];

/** The tokenizer as transformers makes it: by the options and added tokens in the files beside the vocabulary, too. */
export async function applyTokenizerConfig(
  specification: TokenizerSpec,
  folder: string,
  names: ReadonlySet<string>,
): Promise<TokenizerSpec> {
  const read = async (name: string): Promise<unknown> =>
    names.has(name) ? readJson(join(folder, name), "the tokenizer's options") : {};
  const options = validate(optionsSchema, await read(TOKENIZER_CONFIG), join(folder, TOKENIZER_CONFIG));
  const plain = names.has("tokenizer.json") && genericTokenizerClasses.includes(options.tokenizer_class ?? "");
  const model = plain ? specification.model : applyModelOptions(specification.model, options);
  const described = options.added_tokens_decoder;
  const specials = getTokenContents(options);
  if (described != null) {
    const tokens = Object.entries(described).map(([id, token]) => ({ ...token, id: Number(id) }));
    return { ...specification, model, addedTokens: mergeAddedTokens(specification, tokens, specials) };
  }
  // Two files of the time before the options described the added tokens: transformers reads them only where the options do not.
  const numbered = [...readVocabulary(await read(ADDED_TOKENS), join(folder, ADDED_TOKENS))];
  const tokens = numbered.map(([content, id]) => ({ ...simple, content, id, normalized: true }));
  const more = getTokenContents(
    validate(specialsSchema, await read(SPECIAL_TOKENS_MAP), join(folder, SPECIAL_TOKENS_MAP)),
  );
  return { ...specification, model, addedTokens: mergeAddedTokens(specification, tokens, [...specials, ...more]) };
}

function getTokenContents({ additional_special_tokens: tokens }: z.output<typeof specialsSchema>): string[] {
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
      // Here null is a setting of its own: as lower-casing has it.
      strip_accents: options.strip_accents === undefined ? normalizer.strip_accents : options.strip_accents,
    },
  };
}

/** The added tokens of the tokenizer's own file, and after them those that it does not know. */
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
  // A special token without a number gets the next one.
  let next =
    1 + [...vocabulary.values(), ...[...all.values()].map(({ id }) => id)].reduce((max, id) => Math.max(max, id), -1);
  for (const content of specials) {
    add({ ...simple, content, id: next, normalized: false });
    if (all.get(content)!.id === next) next++;
  }
  return [...all.values()];
}
