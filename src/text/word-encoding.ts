import type { Encoding, Tokenizer, WordLevelEncoding } from "./encoding.js";
import { buildSequence, fitLengths, type LayoutPart } from "./layout.js";
import { splitWords } from "./words.js";

/** Raised whenever the cutting into words changes: what was cached under the old rules is not read under the new. */
export const WORD_RULES_VERSION = 1;

/**
 * Where words stand, one token each (RIFT A.1): start, the first text's words, end, and for a pair the second text's words and
 * another end, in one sequence of type 0. In a single text word i is token i + 1.
 */
function createWordLayout(special: Tokenizer["special"], texts: number): LayoutPart[] {
  if (texts !== 1 && texts !== 2) throw new RangeError(`expected one text or a pair, received ${texts}`);
  const end = { token: special.sepId, type: 0 };
  const parts: LayoutPart[] = [{ token: special.clsId, type: 0 }, { field: 0, type: 0 }, end];
  return texts === 2 ? [...parts, { field: 1, type: 0 }, end] : parts;
}

/** The tokens of words, one list a text, as one sequence. */
export function buildWordSequence(
  tokens: readonly (readonly number[])[],
  special: Tokenizer["special"],
  maxLength: number,
): Encoding {
  return buildSequence(createWordLayout(special, tokens.length), tokens, maxLength);
}

/** Cuts texts into words and gives each its token. */
export function encodeWords(
  texts: readonly string[],
  maxLength: number,
  special: Tokenizer["special"],
  wordToId: (word: string) => number,
): WordLevelEncoding {
  const cut = texts.map(splitWords);
  const kept = fitLengths(
    createWordLayout(special, texts.length),
    cut.map((words) => words.length),
    maxLength,
  );
  const words = cut.map((list, field) => list.slice(0, kept[field]));
  const encoded = buildWordSequence(
    words.map((list) => list.map(wordToId)),
    special,
    maxLength,
  );
  const all = words.flat();
  const fields = new Uint8Array(all.length).fill(1, words[0]!.length);
  // The second text's words come after one more separator.
  const positions = new Int32Array(all.length);
  for (let index = 0; index < all.length; index++) positions[index] = index + 1 + fields[index]!;
  return {
    ...encoded,
    truncated: words.some((list, field) => list.length < cut[field]!.length),
    words: all,
    fields,
    positions,
  };
}
