import { join } from "node:path";
import { z } from "zod";
import { readJson } from "../files.js";
import { validate } from "../validate.js";
import type { AddedToken } from "./added-tokens.js";
import type { TokenizerSpecification } from "./specification.js";
import { readVocabulary } from "./vocabulary-files.js";

const OPTIONS = "tokenizer_config.json";
const NUMBERS = "added_tokens.json";
const SPECIALS = "special_tokens_map.json";
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
type Options = z.output<typeof optionsSchema>;

/** Classes of transformers that take tokenizer.json as it is; those of BERT and RoBERTa let the options decide. */
const plainClasses = ["PreTrainedTokenizerFast", "TokenizersBackend"];

/** The tokenizer as transformers makes it: by the options and added tokens in the files beside the vocabulary, too. */
export async function withOptions(
  specification: TokenizerSpecification,
  folder: string,
  names: ReadonlySet<string>,
): Promise<TokenizerSpecification> {
  const read = async (name: string): Promise<unknown> => (names.has(name) ? readJson(join(folder, name), "the tokenizer's options") : {});
  const options = validate(optionsSchema, await read(OPTIONS), join(folder, OPTIONS));
  const plain = names.has("tokenizer.json") && plainClasses.includes(options.tokenizer_class ?? "");
  const model = plain ? specification.model : modelWith(specification.model, options);
  const described = options.added_tokens_decoder;
  const specials = contentsOf(options);
  if (described != null) {
    const tokens = Object.entries(described).map(([id, token]) => ({ ...token, id: Number(id) }));
    return { ...specification, model, added: addedWith(specification, tokens, specials) };
  }
  // Two files of the time before the options described the added tokens: transformers reads them only where the options do not.
  const numbered = [...readVocabulary(await read(NUMBERS), join(folder, NUMBERS))];
  const tokens = numbered.map(([content, id]) => ({ ...simple, content, id, normalized: true }));
  const more = contentsOf(validate(specialsSchema, await read(SPECIALS), join(folder, SPECIALS)));
  return { ...specification, model, added: addedWith(specification, tokens, [...specials, ...more]) };
}

function contentsOf({ additional_special_tokens: tokens }: z.output<typeof specialsSchema>): string[] {
  return (tokens ?? []).map((token) => (typeof token === "string" ? token : token.content));
}

function modelWith(model: TokenizerSpecification["model"], options: Options): TokenizerSpecification["model"] {
  if (model.kind === "byte-bpe") return { ...model, addPrefixSpace: options.add_prefix_space ?? model.addPrefixSpace };
  const { normaliser } = model;
  if (normaliser === null) return model;
  return {
    ...model,
    normaliser: {
      ...normaliser,
      lowercase: options.do_lower_case ?? normaliser.lowercase,
      handle_chinese_chars: options.tokenize_chinese_chars ?? normaliser.handle_chinese_chars,
      // Here null is a setting of its own: as lower-casing has it.
      strip_accents: options.strip_accents === undefined ? normaliser.strip_accents : options.strip_accents,
    },
  };
}

/** The added tokens of the tokenizer's own file, and after them those that it does not know. */
function addedWith(
  { added, vocabulary }: TokenizerSpecification,
  tokens: readonly AddedToken[],
  specials: readonly string[],
): AddedToken[] {
  const all = new Map(added.map((token) => [token.content, token]));
  const add = (token: AddedToken): void => {
    if (!all.has(token.content)) all.set(token.content, { ...token, id: vocabulary.get(token.content) ?? token.id });
  };
  tokens.forEach(add);
  // A special token without a number gets the next one.
  let next = 1 + [...vocabulary.values(), ...[...all.values()].map(({ id }) => id)].reduce((most, id) => Math.max(most, id), -1);
  for (const content of specials) {
    add({ ...simple, content, id: next, normalized: false });
    if (all.get(content)!.id === next) next++;
  }
  return [...all.values()];
}
