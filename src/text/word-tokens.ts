import { requireBinaryPackage } from "../base/binary-packages.js";
import { UserError } from "../base/errors.js";
import { limitText } from "./part-encoder.js";
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
  if (model.type === "WordPiece") return memoizeWords(createWordPieceLookup(file, unkId));
  const isByteLevel = file.preTokenizers.some(({ type }) => type === "ByteLevel");
  // A word that spells a special token is unknown, so that texts cannot contain separators.
  const reserved = new Set(addedTokens.map(({ id }) => id));
  let plain: PackageTokenizer | undefined;
  const lookUp: WordsToIds = (words) => {
    plain ??= createPlain();
    return plain(words.map((word) => limitText(` ${word}`))).map(({ ids }) => {
      const id = ids.length > 0 && (isByteLevel || ids.length === 1) ? ids[0]! : unkId;
      return !isByteLevel && reserved.has(id) ? unkId : id;
    });
  };
  let isChecked = isByteLevel;
  return memoizeWords((words) => {
    if (!isChecked) checkWholeWords(file, lookUp, unkId, source);
    isChecked = true;
    return lookUp(words);
  });
}

function createWordPieceLookup({ model, addedTokens, normalizers }: TokenizerFile, unkId: number): WordsToIds {
  const reserved = new Set(addedTokens.map(({ content }) => content));
  const normalize = createNormalizer(toSequence("normalizers", normalizers));
  return (words) =>
    words.map((word) => {
      const normalized = normalize(limitText(word)).trim();
      return reserved.has(normalized) ? unkId : (model.vocabulary.get(normalized) ?? unkId);
    });
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

/** Caches the tokens of words. New words of one call are looked up together. */
function memoizeWords(lookUp: WordsToIds): WordsToIds {
  const cache = new Map<string, number>();
  return (words) => {
    const known = words.map((word) => cache.get(word));
    if (!known.includes(undefined)) return known as number[];
    const missing = [...new Set(words.filter((_, index) => known[index] === undefined))];
    const ids = lookUp(missing);
    const fresh = new Map(missing.map((word, index) => [word, ids[index]!]));
    if (cache.size + fresh.size > MAX_ENTRIES) cache.clear();
    for (const [word, id] of fresh) if (word.length <= 64) cache.set(word, id);
    return words.map((word, index) => known[index] ?? fresh.get(word)!);
  };
}
