import type { Tokenizer } from "./encoding.js";
import { loneMarksPattern } from "./known-patterns.js";
import { toSequence } from "./tokenizer-components.js";
import { readTokenizerJson, type TokenizerFile } from "./tokenizer-file.js";
import { getCaseSensitiveWordPattern } from "./words.js";

/** Stands for a word that the normalizer would remove. It is in no vocabulary. */
const removedWord = "\u0001";

/** True for byte-level BPE, in which the token of a word is the first of its pieces. */
export function readsFirstPieces(tokenizer: Tokenizer, source: string): boolean {
  return readTokenizerJson(tokenizer.toJson(), source).preTokenizers.some(({ type }) => type === "ByteLevel");
}

/**
 * Creates the tokenizer.json of a WordLevel tokenizer that gives the tokens of `encodeWords`, so
 * that other libraries read texts like a model with word tokenization. Returns null for byte-level
 * BPE, because no tokenizer.json can express the first piece of a word.
 */
export function createWordLevelJson(tokenizer: Tokenizer, source: string): object | null {
  if (readsFirstPieces(tokenizer, source)) return null;
  const file = readTokenizerJson(tokenizer.toJson(), source);
  const { clsId, sepId, unkId } = tokenizer.special;
  const [cls, sep, unk] = tokenizer.idsToTokens([clsId, sepId, unkId]) as [string, string, string];
  // Words are split before they are normalized, so the normalizer must not add or remove any.
  const normalizers = file.normalizers
    .filter(({ type }) => type !== "Prepend")
    .map((part) =>
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
    model: { type: "WordLevel", vocab: Object.fromEntries(listWords(tokenizer, file)), unk_token: unk },
  };
}

/** The start of a word in the vocabularies of SentencePiece. */
const wordStart = "▁";

/** The words that have a token, with their tokens. The special tokens keep their names. */
function listWords(tokenizer: Tokenizer, { model: { type, vocabulary } }: TokenizerFile): Iterable<[string, number]> {
  if (type === "WordPiece") return vocabulary;
  const { special } = tokenizer;
  const names = Object.values(special).flatMap((id): [string, number][] =>
    id === null ? [] : [[tokenizer.idsToTokens([id])[0]!, id]],
  );
  const words = [...vocabulary].flatMap(([token, id]): [string, number][] => {
    const word = token.startsWith(wordStart) ? token.slice(wordStart.length) : token;
    return word !== "" && tokenizer.wordToId(word) === id && id !== special.unkId ? [[word, id]] : [];
  });
  return [...words, ...names];
}
