import { UserError } from "../base/errors.js";
import type { Tokenizer } from "./encoding.js";
import type { TokenizerConfig } from "./tokenizer-config.js";
import type { TokenizerFile } from "./tokenizer-file.js";

/** Finds the IDs of the special tokens, by their names in the config, else by their usual names. */
export function findSpecialTokens(
  { model, addedTokens, postProcessor }: TokenizerFile,
  config: TokenizerConfig,
  source: string,
): Tokenizer["special"] {
  const added = new Map(addedTokens.map(({ content, id }) => [content, id]));
  const find = (...names: (string | null | undefined)[]): number | undefined =>
    names
      .map((name) => (name == null ? undefined : (added.get(name) ?? model.vocabulary.get(name))))
      .find((id) => id !== undefined);
  const required = (role: string, names: readonly string[]): number => {
    const id = find(...names);
    if (id !== undefined) return id;
    const expected = names.map((name) => JSON.stringify(name)).join(" or ");
    throw new UserError(`${source}: no ${role} token. Expected ${expected} in the vocabulary.`);
  };
  const { pad_token: pad, unk_token: unk, mask_token: mask } = config.specialTokens;
  const unkToken = model.type === "Unigram" ? model.pieces[model.unk_id ?? -1] : model.unk_token;
  const ends = postProcessor.layout.single.flatMap((part) => ("token" in part ? [part.token] : []));
  return {
    clsId: ends[0]!,
    sepId: ends.at(-1)!,
    padId: find(pad) ?? required("padding", ["[PAD]", "<pad>"]),
    unkId: unkToken == null ? (find(unk) ?? required("unknown", ["[UNK]", "<unk>"])) : required("unknown", [unkToken]),
    maskId: find(mask, "[MASK]", "<mask>") ?? null,
  };
}
