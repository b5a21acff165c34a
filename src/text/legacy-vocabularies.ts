import { join } from "node:path";
import { readJson, readText } from "../base/files.js";
import { createSpecialToken, createTokenLookup, readVocabulary } from "./added-tokens.js";
import type { TokenizerConfig } from "./tokenizer-config.js";
import { createBertProcessor, createRobertaProcessor, type TokenizerFile } from "./tokenizer-file.js";
import { readMerge } from "./tokenizer-model.js";

/**
 * Reads vocab.txt: one token per line. The ID is the line number, from 0. MPNet uses the special
 * tokens and the layout of RoBERTa, all other models those of BERT.
 */
export async function readVocabTxt(folder: string, config: TokenizerConfig): Promise<TokenizerFile> {
  const path = join(folder, "vocab.txt");
  const lines = (await readText(path, "the vocabulary", { kind: "tokenizer" })).split(/\r?\n/);
  if (lines.at(-1) === "") lines.pop();
  const vocabulary = new Map(lines.map((token, id) => [token, id]));
  const getId = createTokenLookup(vocabulary, path);
  const getToken = (token: string): [string, number] => [token, getId(token)];
  const isMpnet = config.modelType === "mpnet" || /^MPNet/.test(config.options.tokenizer_class ?? "");
  const special = isMpnet
    ? ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"]
    : ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
  return {
    addedTokens: special
      .filter((token) => vocabulary.has(token))
      .map((token) => createSpecialToken(token, getId(token), token === "<mask>")),
    normalizers: [
      { type: "BertNormalizer", clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true },
    ],
    preTokenizers: [{ type: "BertPreTokenizer" }],
    postProcessor: isMpnet
      ? createRobertaProcessor(getToken("<s>"), getToken("</s>"), { trim_offsets: true, add_prefix_space: false })
      : createBertProcessor(getToken("[CLS]"), getToken("[SEP]")),
    model: {
      type: "WordPiece",
      vocabulary,
      unk_token: "[UNK]",
      continuing_subword_prefix: "##",
      max_input_chars_per_word: 100,
    },
  };
}

/** Reads RoBERTa's vocab.json and merges.txt. */
export async function readVocabAndMerges(folder: string): Promise<TokenizerFile> {
  const path = join(folder, "vocab.json");
  const vocabulary = readVocabulary(await readJson(path, "the vocabulary", { kind: "tokenizer" }), path);
  const mergesPath = join(folder, "merges.txt");
  const merges = (await readText(mergesPath, "the merges", { kind: "tokenizer" }))
    .split(/\r?\n/)
    .flatMap((line, index) => {
      if (line === "" || (index === 0 && line.startsWith("#version"))) return [];
      return [readMerge(line, `${mergesPath}:${index + 1}`)];
    });
  const getId = createTokenLookup(vocabulary, path);
  const getToken = (token: string): [string, number] => [token, getId(token)];
  const options = { trim_offsets: true, add_prefix_space: false };
  for (const [left, right] of merges) for (const token of [left, right, left + right]) getId(token);
  return {
    addedTokens: ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
      .filter((token) => vocabulary.has(token))
      .map((token) => createSpecialToken(token, getId(token), token === "<mask>")),
    normalizers: [],
    preTokenizers: [{ type: "ByteLevel", ...options, use_regex: true }],
    postProcessor: createRobertaProcessor(getToken("<s>"), getToken("</s>"), options),
    model: {
      type: "BPE",
      vocabulary,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      merges,
    },
  };
}
