import { type Tokenizer, unknownCharacter } from "./encoding.js";
import { loneMarksPattern, spaceLikePattern } from "./known-patterns.js";
import { toSequence } from "./tokenizer-components.js";
import { readTokenizerJson, type TokenizerFile } from "./tokenizer-file.js";
import { createNormalizer } from "./word-tokens.js";
import { getCaseSensitiveWordPattern, splitWords } from "./words.js";

/** A letter that no English word has: a word with it is unknown, whatever its other letters are. */
const inertLetter = "\ua840";

/** True for byte-level BPE, in which the token of a word is the first of its pieces. */
export function readsFirstPieces(tokenizer: Tokenizer, source: string): boolean {
  return readTokenizerJson(tokenizer.toJson(), source).preTokenizers.some(({ type }) => type === "ByteLevel");
}

/**
 * Creates the tokenizer.json of a WordLevel tokenizer that gives the tokens of `encodeWords`, so
 * that other libraries read texts like a model with word tokenization. Returns null for byte-level
 * BPE, because no tokenizer.json can express the first piece of a word.
 */
export function createWordLevelJson(tokenizer: Tokenizer, source: string, keepsHyphens: boolean): object | null {
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
  const hide = (pattern: string) => ({ type: "Replace", pattern: { Regex: pattern }, content: unknownCharacter });
  const { replacements, words } = protectWords(tokenizer, normalizers);
  const protections = [
    ...(stripsAccents ? [hide(loneMarksPattern)] : []),
    ...(hasCharsmap(normalizers) ? [hide(spaceLikePattern)] : []),
    ...replacements,
  ];
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
    normalizer: toSequence("normalizers", [...protections, ...normalizers]),
    pre_tokenizer: {
      type: "Split",
      pattern: { Regex: getCaseSensitiveWordPattern(keepsHyphens) },
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
    model: { type: "WordLevel", vocab: Object.fromEntries([...listWords(tokenizer, file), ...words]), unk_token: unk },
  };
}

/** Returns true if a normalizer is a table of SentencePiece. transformers.js uses NFKC instead of the table. */
function hasCharsmap(normalizers: readonly object[]): boolean {
  return normalizers.some((part) => "type" in part && part.type === "Precompiled");
}

/** Symbols and compatibility characters of everyday texts: ´ ½ … ™ and their like. */
const everydayRanges = [
  [0xa1, 0xff],
  [0x2010, 0x218f],
  [0xff01, 0xffee],
] as const;

/**
 * Replaces characters whose normal form has other words, such as … and ½: a normalizer runs before
 * words are split, but words are normalized after they are split. A symbol that has a token gets a
 * character for private use, which is added to the vocabulary.
 */
function protectWords(
  tokenizer: Tokenizer,
  normalizers: readonly object[],
): { readonly replacements: object[]; readonly words: [string, number][] } {
  const normalize = createNormalizer(toSequence("normalizers", normalizers));
  const forms = [normalize, ...(hasCharsmap(normalizers) ? [(text: string) => text.normalize("NFKC")] : [])];
  const replacements: object[] = [];
  const words: [string, number][] = [];
  for (const [first, last] of everydayRanges)
    for (let code = first; code <= last; code++) {
      const character = String.fromCharCode(code);
      const text = `a${character}b ${character} 1${character}2`;
      const split = splitWords(text);
      if (forms.every((form) => String(splitWords(form(text))) === String(split.map((word) => form(word).trim()))))
        continue;
      let content = inertLetter;
      if (split.includes(character) && !/[\p{L}\p{M}\p{N}]/u.test(character)) {
        const id = tokenizer.wordToId(character);
        content = id === tokenizer.special.unkId ? unknownCharacter : String.fromCharCode(0xe001 + words.length);
        if (content !== unknownCharacter) words.push([content, id]);
      }
      replacements.push({ type: "Replace", pattern: { String: character }, content });
    }
  return { replacements, words };
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
