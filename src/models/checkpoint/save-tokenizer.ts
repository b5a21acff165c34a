import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { exists, readBytes, readJson, writeFileAtomic } from "../../base/files.js";
import type { Tokenization, Tokenizer } from "../../text/encoding.js";
import { SUBWORD_TOKENIZER } from "../../text/tokenizer.js";
import { createWordLevelJson } from "../../text/word-level-json.js";
import type { Model } from "../model.js";
import type { InputLimits } from "../model-input.js";

const tokenizerFiles =
  /^(tokenizer.*\.json|special_tokens_map\.json|added_tokens\.json|vocab\.(txt|json)|merges\.txt|.+\.model)$/;

export interface TokenizerSource {
  readonly folder: string;
  readonly tokenizer: Tokenizer;
  readonly tokenization: Tokenization;
  readonly usesTokenTypes: boolean;
  /** Texts are truncated to this many tokens; null if the model does not say. */
  readonly maxLength: number | null;
}

export function getTokenizerSource({
  folder,
  tokenizer,
  tokenization,
  maxLength,
  architecture,
}: Model): TokenizerSource {
  const { typeVocabSize = 0 }: InputLimits = architecture.config;
  return {
    folder,
    tokenizer,
    tokenization,
    usesTokenTypes: typeVocabSize > 1,
    maxLength,
  };
}

/** Writes a tokenizer with which transformers splits and truncates texts like Temper. */
export async function saveTokenizer(folder: string, source: TokenizerSource): Promise<void> {
  const files = new Map<string, Buffer | string>();
  const created = await createTokenizerFiles(source);
  if (!(SUBWORD_TOKENIZER in created) && !(await hasWordLevel(source.folder)))
    for (const name of await readdir(source.folder))
      if (tokenizerFiles.test(name))
        files.set(name, await readBytes(join(source.folder, name), "the tokenizer", { kind: "tokenizer" }));
  // A copy of tokenizer.json keeps the parts that Temper does not read.
  for (const [name, content] of Object.entries(created))
    if (name !== "tokenizer.json" || !files.has(name))
      files.set(name, `${JSON.stringify(content, null, name.endsWith("tokenizer.json") ? 0 : 2)}\n`);
  for (const [name, content] of files)
    if (source.folder !== folder || typeof content === "string") await writeFileAtomic(join(folder, name), content);
}

function hasWordLevel(folder: string): Promise<boolean> {
  return exists(join(folder, SUBWORD_TOKENIZER));
}

export async function createTokenizerFiles(source: TokenizerSource): Promise<{
  /** Missing if no tokenizer of another library reads texts like the model: an error is better than other predictions. */
  readonly "tokenizer.json"?: object;
  readonly "special_tokens_map.json": object;
  readonly "tokenizer_config.json": object;
  /** Temper reads this file with word tokenization. */
  readonly [SUBWORD_TOKENIZER]?: object;
}> {
  const { folder, tokenizer, tokenization, usesTokenTypes, maxLength } = source;
  const hasWords = tokenization !== "subword";
  const json = hasWords ? createWordLevelJson(tokenizer, folder, tokenization === "released-word") : tokenizer.toJson();
  const isKept = !hasWords && !(await hasWordLevel(folder));
  const readExisting = async (name: string): Promise<object> => {
    const path = join(folder, name);
    return isKept && (await exists(path)) ? ((await readJson(path, name)) as object) : {};
  };
  const { clsId, sepId, padId, unkId, maskId } = tokenizer.special;
  const getName = (id: number): string => tokenizer.idsToTokens([id])[0]!;
  const names = {
    cls_token: getName(clsId),
    sep_token: getName(sepId),
    pad_token: getName(padId),
    unk_token: getName(unkId),
    ...(maskId !== null && { mask_token: getName(maskId) }),
  };
  return {
    ...(json && { "tokenizer.json": json }),
    "special_tokens_map.json": { ...names, ...(await readExisting("special_tokens_map.json")) },
    "tokenizer_config.json": {
      // The generic class of transformers takes everything from tokenizer.json.
      tokenizer_class: "PreTrainedTokenizerFast",
      model_input_names: ["input_ids", ...(usesTokenTypes ? ["token_type_ids"] : []), "attention_mask"],
      clean_up_tokenization_spaces: false,
      ...names,
      // A text that spells a special token consists of the words of its characters.
      ...(hasWords && { split_special_tokens: true }),
      ...(await readExisting("tokenizer_config.json")),
      ...(maxLength !== null && { model_max_length: maxLength }),
    },
    ...(hasWords && { [SUBWORD_TOKENIZER]: tokenizer.toJson() }),
  };
}
