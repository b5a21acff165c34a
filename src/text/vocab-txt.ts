import { join } from "node:path";
import { readText } from "../base/files.js";
import { createSpecialToken, createTokenLookup } from "./added-tokens.js";
import { createBertProcessor, type TokenizerFile } from "./tokenizer-file.js";

/** Reads BERT's vocab.txt: one token per line. The ID is the line number, from 0. */
export async function readVocabTxt(folder: string): Promise<TokenizerFile> {
  const path = join(folder, "vocab.txt");
  const lines = (await readText(path, "the vocabulary", { kind: "tokenizer" })).split(/\r?\n/);
  if (lines.at(-1) === "") lines.pop();
  const vocabulary = new Map(lines.map((token, id) => [token, id]));
  return {
    addedTokens: ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
      .filter((token) => vocabulary.has(token))
      .map((token) => createSpecialToken(token, vocabulary.get(token)!)),
    normalizers: [
      { type: "BertNormalizer", clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true },
    ],
    preTokenizers: [{ type: "BertPreTokenizer" }],
    postProcessor: createBertProcessor(createTokenLookup(vocabulary, path)),
    model: {
      type: "WordPiece",
      vocabulary,
      unk_token: "[UNK]",
      continuing_subword_prefix: "##",
      max_input_chars_per_word: 100,
    },
  };
}
