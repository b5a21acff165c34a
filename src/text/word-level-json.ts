import { UserError } from "../errors.js";
import type { Tokenizer } from "./encoding.js";
import { loneMarksPattern } from "./known-patterns.js";
import { toSequence } from "./tokenizer-components.js";
import { readTokenizerJson } from "./tokenizer-file.js";
import { getCaseSensitiveWordPattern } from "./words.js";

/** Stands for a word that the normalizer would remove. It is in no vocabulary. */
const removedWord = "\u0001";

/**
 * Creates the tokenizer.json of a WordLevel tokenizer that gives the tokens of `encodeWords`, so
 * that other libraries read texts like a model with word tokenization. Only WordPiece vocabularies
 * have a list of words.
 */
export function createWordLevelJson(tokenizer: Tokenizer, source: string): object {
  const file = readTokenizerJson(tokenizer.toJson(), source);
  if (file.model.type !== "WordPiece")
    throw new UserError(
      `${source}: expected a WordPiece tokenizer for a model with tokenization: word, received ${file.model.type}. ` +
        "Only a list of words can be written as a WordLevel tokenizer. Train with tokenization: subword.",
    );
  const { clsId, sepId, unkId } = tokenizer.special;
  const [cls, sep, unk] = tokenizer.idsToTokens([clsId, sepId, unkId]) as [string, string, string];
  // Words are split before they are normalized, so the normalizer must not add or remove any.
  const normalizers = file.normalizers.map((part) =>
    part.type === "BertNormalizer" ? { ...part, clean_text: false, handle_chinese_chars: false } : part,
  );
  const stripsAccents = file.normalizers.some(
    (part) =>
      part.type === "StripAccents" || (part.type === "BertNormalizer" && (part.strip_accents ?? part.lowercase)),
  );
  const loneMarks = {
    type: "Replace",
    pattern: { Regex: loneMarksPattern },
    content: removedWord,
  };
  const special = (id: string) => ({ SpecialToken: { id, type_id: 0 } });
  const sequence = (id: "A" | "B") => ({ Sequence: { id, type_id: 0 } });
  const single = [special(cls), sequence("A"), special(sep)];
  const tokens = Object.fromEntries(
    [[cls, clsId] as const, [sep, sepId] as const].map(([id, number]) => [id, { id, ids: [number], tokens: [id] }]),
  );
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    // A text cannot contain special tokens: their characters are separate words.
    added_tokens: [],
    normalizer: toSequence("normalizers", [...(stripsAccents ? [loneMarks] : []), ...normalizers]),
    pre_tokenizer: {
      type: "Split",
      pattern: { Regex: getCaseSensitiveWordPattern() },
      behavior: "Removed",
      invert: true,
    },
    post_processor: {
      type: "TemplateProcessing",
      single,
      pair: [...single, sequence("B"), special(sep)],
      special_tokens: tokens,
    },
    decoder: null,
    model: { type: "WordLevel", vocab: Object.fromEntries(file.model.vocabulary), unk_token: unk },
  };
}
