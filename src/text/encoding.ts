import type { WordPlace } from "./find-words.js";
import { splitWords } from "./words.js";

/** One text (or pair of texts) as model input, with special tokens and without padding. */
export interface Encoding {
  /** Token IDs, from the classification token to the last separator. */
  readonly ids: Int32Array;
  /** 1 for tokens of the second text if the model uses token types, else 0. */
  readonly tokenTypeIds: Int32Array;
  /** True if the text was longer than the maximum length and was truncated. */
  readonly truncated: boolean;
}

/** An encoding with the position of each token in its text. */
export interface EncodingWithOffsets extends Encoding {
  /** Start and end of each token in UTF-16 units; [0, 0] for special tokens. */
  readonly offsets: readonly (readonly [number, number])[];
}

/** A text encoded with one token per word (RIFT A.1). In a single text, word i is token i + 1. */
export interface WordLevelEncoding extends Encoding {
  /** The words that were kept, of all fields in order, as written in the text. */
  readonly words: readonly string[];
  /** For each word, the field of the example that it belongs to (0 or 1). */
  readonly fields: Uint8Array;
  /** For each word, the index of its token in `ids`. */
  readonly positions: Int32Array;
}

/**
 * The kind of a model's tokens. It is saved with the model; training, evaluation and attacks
 * use it. `released-word` reads words as RIFT's released code does: hyphens inside words are kept,
 * and of a long pair only the end is cut.
 */
export const tokenizations = ["subword", "word", "released-word"] as const;
export type Tokenization = (typeof tokenizations)[number];

/**
 * A character for private use: no vocabulary contains it, and no normalizer changes it. So
 * word-level models read it as unknown.
 */
export const unknownCharacter = "\ue000";

/**
 * Encodes a text with other words at some positions, in ascending order: what the tokenizer gives
 * for these characters. Null if other words could change the tokens of their neighbors.
 */
export type TextComposer = (positions: readonly number[], words: readonly string[]) => Encoding | null;

/** A tokenizer. All its methods are pure functions. */
export interface Tokenizer {
  readonly vocabSize: number;
  /** IDs of the special tokens ([CLS], [SEP], [PAD], [UNK], [MASK], or those of RoBERTa). */
  readonly special: {
    readonly clsId: number;
    readonly sepId: number;
    readonly padId: number;
    readonly unkId: number;
    readonly maskId: number | null;
  };
  /** SHA-256 of everything that determines the encoding, for caches and journals. */
  readonly hash: string;
  /**
   * Encodes one text or a pair. `maxLength` includes special tokens; the longer text of a pair is
   * truncated first.
   */
  encode(texts: readonly string[], maxLength: number): Encoding;
  /** Encodes many texts or pairs. This is much faster than many calls of `encode`. */
  encodeAll(inputs: readonly (readonly string[])[], maxLength: number): Encoding[];
  /** Encodes one text or a pair, with the part of the text that each token covers. */
  encodeWithOffsets(texts: readonly string[], maxLength: number): EncodingWithOffsets;
  /**
   * Prepares to encode versions of a text in which some of its words are replaced. This is much
   * faster than encoding each version. Null or missing if the tokens of a text are not those of its parts.
   */
  createComposer?(
    texts: readonly string[],
    words: readonly WordPlace[],
    maxLength: number,
    tokenization: Tokenization,
  ): TextComposer | null;
  /** Encodes one text or a pair with exactly one token per word. */
  encodeWords(texts: readonly string[], maxLength: number): WordLevelEncoding;
  /** Returns the single token of a word in the word-level encoding, for example of a substitute. */
  wordToId(word: string): number;
  idsToTokens(ids: ArrayLike<number>): string[];
  /** Returns the content of tokenizer.json, whichever files the tokenizer was read from. */
  toJson(): object;
}

/** One part of a layout: a special token, or the position of the first or second text. */
export type LayoutPart =
  | { readonly token: number; readonly type: number }
  | { readonly field: 0 | 1; readonly type: number };

/** The places of special tokens around one text and around a pair. */
export interface SequenceLayout {
  readonly single: readonly LayoutPart[];
  readonly pair: readonly LayoutPart[];
}

export function selectLayout(layout: SequenceLayout, numTexts: number): readonly LayoutPart[] {
  if (numTexts !== 1 && numTexts !== 2) throw new RangeError(`expected one text or a pair, received ${numTexts}`);
  return numTexts === 1 ? layout.single : layout.pair;
}

/**
 * Computes how many tokens of each text fit: the longer text is truncated first, then both equally.
 */
function truncateLongest([first = 0, second]: readonly number[], available: number): number[] {
  if (second === undefined) return [Math.min(first, available)];
  if (first + second <= available) return [first, second];
  const half = Math.floor(available / 2);
  const shorter = Math.min(first, second);
  // If both are truncated, the longer text keeps the odd token. If both are equally long, the
  // second one does.
  const [small, large] = shorter <= half ? [shorter, available - shorter] : [half, available - half];
  return first > second ? [large, small] : [small, large];
}

/** Computes how many tokens of each text fit if only the end of the sequence is cut. */
function truncateEnd(lengths: readonly number[], available: number): number[] {
  let left = available;
  return lengths.map((length) => {
    const kept = Math.min(length, left);
    left -= kept;
    return kept;
  });
}

function countSpecialTokens(parts: readonly LayoutPart[]): number {
  return parts.filter((part) => "token" in part).length;
}

/** Computes how many tokens of each text fit into `maxLength` along with the special tokens. */
function fitLengths(
  parts: readonly LayoutPart[],
  lengths: readonly number[],
  maxLength: number,
  truncate = truncateLongest,
): number[] {
  const special = countSpecialTokens(parts);
  if (!(maxLength >= special))
    throw new RangeError(
      `maximum length: expected at least ${special} (the number of special tokens), received ${maxLength}`,
    );
  return truncate(lengths, Math.floor(maxLength) - special);
}

interface BuildOptions {
  readonly truncate?: typeof truncateLongest;
  /** Creates the array of the token IDs. */
  readonly allocate?: (length: number) => Int32Array;
}

const createArray = (length: number): Int32Array => new Int32Array(length);

/** Nearly all texts have only tokens of type 0. Those of one length share an array. */
const zeros: Int32Array[] = [];

/** Builds the token sequence of a layout, with the texts truncated to fit `maxLength`. */
export function buildSequence(
  parts: readonly LayoutPart[],
  texts: readonly (readonly number[])[],
  maxLength: number,
  { truncate = truncateLongest, allocate = createArray }: BuildOptions = {},
): Encoding {
  const lengths = texts.map((text) => text.length);
  const kept = fitLengths(parts, lengths, maxLength, truncate);
  const total = kept.reduce((sum, length) => sum + length, countSpecialTokens(parts));
  const ids = allocate(total);
  zeros[total] ??= new Int32Array(total);
  const tokenTypeIds = parts.some(({ type }) => type !== 0) ? new Int32Array(total) : zeros[total];
  let end = 0;
  for (const part of parts) {
    const start = end;
    if ("token" in part) ids[end++] = part.token;
    else {
      const text = texts[part.field]!;
      for (let index = 0; index < kept[part.field]!; index++) ids[end++] = text[index]!;
    }
    if (part.type !== 0) tokenTypeIds.fill(part.type, start, end);
  }
  return { ids, tokenTypeIds, truncated: kept.some((length, field) => length < lengths[field]!) };
}

/** Builds the offsets of a sequence that `buildSequence` builds. */
export function buildOffsets(
  parts: readonly LayoutPart[],
  texts: readonly (readonly (readonly [number, number])[])[],
  maxLength: number,
): (readonly [number, number])[] {
  const kept = fitLengths(
    parts,
    texts.map((text) => text.length),
    maxLength,
  );
  return parts.flatMap((part) => ("token" in part ? [[0, 0] as const] : texts[part.field]!.slice(0, kept[part.field])));
}

/**
 * The layout of the word-level encoding (RIFT A.1): [CLS] a [SEP], or [CLS] a [SEP] b [SEP]; all of
 * type 0.
 */
function createWordLayout({ clsId, sepId }: Tokenizer["special"]): SequenceLayout {
  const sep = { token: sepId, type: 0 };
  const single: LayoutPart[] = [{ token: clsId, type: 0 }, { field: 0, type: 0 }, sep];
  return { single, pair: [...single, { field: 1, type: 0 }, sep] };
}

/** Builds the word-level encoding from the token of each word. */
export function buildWordSequence(
  special: Tokenizer["special"],
  tokens: readonly (readonly number[])[],
  maxLength: number,
  asReleased: boolean,
  allocate: (length: number) => Int32Array,
): Encoding {
  const layout = selectLayout(createWordLayout(special), tokens.length);
  return buildSequence(layout, tokens, maxLength, { allocate, truncate: asReleased ? truncateEnd : truncateLongest });
}

export function encodeWords(
  texts: readonly string[],
  maxLength: number,
  special: Tokenizer["special"],
  wordsToIds: (words: readonly string[]) => number[],
  asReleased: boolean,
): WordLevelEncoding {
  const layout = selectLayout(createWordLayout(special), texts.length);
  const all = texts.map((text) => splitWords(text, asReleased));
  const lengths = all.map((words) => words.length);
  const kept = fitLengths(layout, lengths, maxLength, asReleased ? truncateEnd : truncateLongest);
  const byField = all.map((words, field) => words.slice(0, kept[field]));
  const tokens = byField.map(wordsToIds);
  const words = byField.flat();
  const fields = new Uint8Array(words.length).fill(1, byField[0]!.length);
  return {
    ...buildSequence(layout, tokens, maxLength),
    truncated: kept.some((length, field) => length < lengths[field]!),
    words,
    fields,
    // The words of the second text come after one more separator.
    positions: Int32Array.from(words, (_, index) => index + 1 + fields[index]!),
  };
}
