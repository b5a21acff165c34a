import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { readBytes, writeFileAtomic } from "../../files.js";
import type { Tokenizer } from "../../text/encoding.js";

/** The files of a tokenizer, in any format. */
const tokenizerFiles =
  /^(tokenizer.*\.json|special_tokens_map\.json|added_tokens\.json|vocab\.(txt|json)|merges\.txt|.+\.model)$/;

/** A tokenizer, the folder that it was read from, and whether its model uses token types. */
export interface TokenizerSource {
  readonly folder: string;
  readonly tokenizer: Tokenizer;
  readonly usesTokenTypes: boolean;
}

/**
 * Copies the files of a tokenizer and writes tokenizer.json, tokenizer_config.json and
 * special_tokens_map.json if they are missing, so transformers needs no other file.
 */
export async function saveTokenizer(folder: string, source: TokenizerSource): Promise<void> {
  const files = new Map<string, Buffer | string>();
  for (const name of await readdir(source.folder))
    if (tokenizerFiles.test(name))
      files.set(name, await readBytes(join(source.folder, name), "the tokenizer", { kind: "tokenizer" }));
  for (const [name, content] of Object.entries(createTokenizerFiles(source)))
    if (!files.has(name)) files.set(name, `${JSON.stringify(content, null, name === "tokenizer.json" ? 0 : 2)}\n`);
  for (const [name, content] of files)
    if (source.folder !== folder || typeof content === "string") await writeFileAtomic(join(folder, name), content);
}

/** Creates the three files of a tokenizer, whichever files it was read from. */
export function createTokenizerFiles({
  tokenizer,
  usesTokenTypes,
}: Pick<TokenizerSource, "tokenizer" | "usesTokenTypes">): Record<
  "tokenizer.json" | "special_tokens_map.json" | "tokenizer_config.json",
  object
> {
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
    "tokenizer.json": tokenizer.toJson(),
    "special_tokens_map.json": names,
    // The generic class of transformers takes everything from tokenizer.json.
    "tokenizer_config.json": {
      tokenizer_class: "PreTrainedTokenizerFast",
      model_input_names: ["input_ids", ...(usesTokenTypes ? ["token_type_ids"] : []), "attention_mask"],
      clean_up_tokenization_spaces: false,
      ...names,
    },
  };
}
