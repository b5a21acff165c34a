import type { Tokenizer, WordEncoded } from "./encoding.js";
import { arrange, fittingLengths, type LayoutPart } from "./layout.js";
import { splitWords } from "./words.js";

/** Raised whenever the cutting into words changes: what was cached under the old rules is not read under the new. */
export const WORD_RULES = 1;

/**
 * One token a word (RIFT A.1): start, the first text's words, end, and for a pair the second text's words and another end, in one
 * sequence of type 0. In a single text word i is token i + 1.
 */
export function encodeWords(
  texts: readonly string[],
  maxLength: number,
  special: Tokenizer["special"],
  wordToken: (word: string) => number,
): WordEncoded {
  if (texts.length !== 1 && texts.length !== 2) throw new RangeError(`expected one text or a pair, received ${texts.length}`);
  const end = { token: special.end, type: 0 };
  const parts: LayoutPart[] = [{ token: special.start, type: 0 }, { field: 0, type: 0 }, end];
  if (texts.length === 2) parts.push({ field: 1, type: 0 }, end);
  const cut = texts.map(splitWords);
  const kept = fittingLengths(
    parts,
    cut.map((words) => words.length),
    maxLength,
  );
  const words = cut.map((list, field) => list.slice(0, kept[field]));
  const encoded = arrange(
    parts,
    words.map((list) => list.map(wordToken)),
    maxLength,
  );
  const all = words.flat();
  const fields = new Uint8Array(all.length).fill(1, words[0]!.length);
  // The second text's words come after one more separator.
  const positions = new Int32Array(all.length);
  for (let index = 0; index < all.length; index++) positions[index] = index + 1 + fields[index]!;
  return { ...encoded, truncated: words.some((list, field) => list.length < cut[field]!.length), words: all, fields, positions };
}
