import { createHash } from "node:crypto";
import type { Normalizer } from "./tokenizer-components.js";
import type { TokenizerFile } from "./tokenizer-file.js";

/**
 * Increase this if `splitWords` changes. It is part of the tokenizer's hash, so old caches become
 * invalid.
 */
const WORD_RULES_VERSION = 1;

/**
 * Computes the SHA-256 of everything that determines the encodings. The order of the vocabulary
 * does not. Tokenizers of BERT and RoBERTa have the hashes that are in older journals.
 */
export function hashTokenizer(file: TokenizerFile): string {
  const tokens = [...file.model.vocabulary].sort(([first], [second]) => (first < second ? -1 : 1));
  const addedTokens = file.addedTokens.map(({ id, content, single_word, lstrip, rstrip, normalized }) => ({
    id,
    content,
    single_word,
    lstrip,
    rstrip,
    normalized,
  }));
  const content = [WORD_RULES_VERSION, addedTokens, file.postProcessor.layout, describePipeline(file), tokens];
  return createHash("sha256").update(JSON.stringify(content)).digest("hex");
}

function describePipeline({ normalizers, preTokenizers, model }: TokenizerFile): object {
  const [normalizer] = normalizers;
  const [preTokenizer] = preTokenizers;
  if (preTokenizers.length === 1 && normalizers.length <= 1) {
    const options = describeNormalizer(normalizer);
    if (model.type === "WordPiece" && preTokenizer!.type === "BertPreTokenizer" && options !== undefined)
      return {
        kind: "wordpiece",
        normalizer: options,
        unkToken: model.unk_token,
        continuingPrefix: model.continuing_subword_prefix,
        maxCharacters: model.max_input_chars_per_word,
      };
    const isPlain =
      model.type === "BPE" &&
      !model.continuing_subword_prefix &&
      !model.end_of_word_suffix &&
      !model.byte_fallback &&
      normalizer === undefined;
    if (isPlain && preTokenizer!.type === "ByteLevel" && preTokenizer!.use_regex)
      return {
        kind: "byte-bpe",
        merges: model.merges,
        unkToken: model.unk_token,
        fuseUnknown: model.fuse_unk,
        ignoreMerges: model.ignore_merges,
        addPrefixSpace: preTokenizer!.add_prefix_space,
      };
  }
  const { vocabulary: _, ...options } = model;
  return { normalizers, preTokenizers, ...options };
}

/** Returns BERT's options, null without a normalizer, and undefined for other normalizers. */
function describeNormalizer(normalizer: Normalizer | undefined): object | null | undefined {
  if (normalizer === undefined) return null;
  if (normalizer.type !== "BertNormalizer") return undefined;
  const { clean_text, handle_chinese_chars, lowercase, strip_accents } = normalizer;
  return { clean_text, handle_chinese_chars, strip_accents: strip_accents ?? null, lowercase };
}
