import { requireBinaryPackage } from "../base/binary-packages.js";
import { UserError } from "../base/errors.js";
import { createPartEncoder, limitText, type PartEncoder } from "./part-encoder.js";
import { toSequence } from "./tokenizer-components.js";
import type { TokenizerFile } from "./tokenizer-file.js";
import type { PackageTokenizer } from "./tokenizer-worker.js";

/** Maps words to one token each (RIFT A.1). */
export type WordsToIds = (words: readonly string[]) => number[];

const MAX_ENTRIES = 100_000;
/** Vocabulary entries that are tried before a tokenizer is rejected. */
const NUM_TRIED = 256;

/**
 * Creates the map from words to tokens: the complete word in WordPiece, the first piece after a
 * space in byte-level BPE, and the only piece after a space in other models. All other words are
 * unknown.
 */
export function createWordsToIds(
  file: TokenizerFile,
  unkId: number,
  createPlain: () => PackageTokenizer,
  source: string,
): WordsToIds {
  const { model, addedTokens } = file;
  if (model.type === "WordPiece") return createWordPieceLookup(file, unkId);
  const isByteLevel = file.preTokenizers.some(({ type }) => type === "ByteLevel");
  // A word that spells a special token is unknown, so that texts cannot contain separators.
  const reserved = new Set(addedTokens.map(({ id }) => id));
  let encode: PartEncoder | undefined;
  const lookUp: WordsToIds = (words) => {
    encode ??= createPartEncoder(createPlain(), { ...file, addedTokens: [] });
    return encode(words.map((word) => ({ text: ` ${word}`, limit: Number.POSITIVE_INFINITY }))).map((ids) => {
      const id = ids.length > 0 && (isByteLevel || ids.length === 1) ? ids[0]! : unkId;
      return !isByteLevel && reserved.has(id) ? unkId : id;
    });
  };
  let isChecked = isByteLevel;
  return (words) => {
    if (!isChecked) checkWholeWords(file, lookUp, unkId, source);
    isChecked = true;
    return lookUp(words);
  };
}

function createWordPieceLookup({ model, addedTokens, normalizers }: TokenizerFile, unkId: number): WordsToIds {
  const reserved = new Set(addedTokens.map(({ content }) => content));
  const normalize = createNormalizer(toSequence("normalizers", normalizers));
  const cache = new Map<string, number>();
  const lookUp = (word: string): number => {
    const normalized = normalize(limitText(word)).trim();
    const id = reserved.has(normalized) ? unkId : (model.vocabulary.get(normalized) ?? unkId);
    if (cache.size === MAX_ENTRIES) cache.clear();
    if (word.length <= 64) cache.set(word, id);
    return id;
  };
  return (words) => words.map((word) => cache.get(word) ?? lookUp(word));
}

/** Creates the package's normalizer. It answers without a promise, unlike its tokenizer. */
export function createNormalizer(normalizer: object | null): (text: string) => string {
  if (normalizer === null) return (text) => text;
  const json = { version: "1.0", added_tokens: [], normalizer, model: { type: "WordLevel", vocab: {}, unk_token: "" } };
  const { Tokenizer } = requireBinaryPackage("tokenizers") as typeof import("tokenizers");
  const official = Tokenizer.fromString(JSON.stringify(json)).getNormalizer()!;
  return (text) => official.normalizeString(text);
}

/** Throws an error if the tokenizer splits even the words of its own vocabulary. */
function checkWholeWords({ model }: TokenizerFile, lookUp: WordsToIds, unkId: number, source: string): void {
  const words = [...model.vocabulary.keys()]
    .map((token) => token.replace(/[^\p{L}\p{M}]/gu, ""))
    .filter((word) => word.length > 1)
    .slice(0, NUM_TRIED);
  if (lookUp(words).some((id) => id !== unkId)) return;
  throw new UserError(
    `${source}: this ${model.type} tokenizer has no tokens for complete words, ` +
      "but tokenization: word needs one token per word. Set tokenization: subword.",
  );
}
