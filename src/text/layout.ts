import type { Encoding } from "./encoding.js";

/** One part of a layout: a special token, or the place of the first or second text. */
export type LayoutPart =
  | { readonly token: number; readonly type: number }
  | { readonly field: 0 | 1; readonly type: number };

/** Where the special tokens stand around one text and around a pair. */
export interface SequenceLayout {
  readonly single: readonly LayoutPart[];
  readonly pair: readonly LayoutPart[];
}

/** The parts for a number of texts; anything but one or two is the caller's mistake. */
export function selectLayout(layout: SequenceLayout, texts: number): readonly LayoutPart[] {
  if (texts !== 1 && texts !== 2) throw new RangeError(`expected one text or a pair, received ${texts}`);
  return texts === 1 ? layout.single : layout.pair;
}

/** How many tokens each text keeps in the room there is: the longer one is cut first, and then both alike. */
export function truncateLengths(lengths: readonly number[], room: number): number[] {
  const [first = 0, second] = lengths;
  if (second === undefined) return [Math.min(first, room)];
  if (first + second <= room) return [first, second];
  const half = Math.floor(room / 2);
  const shorter = Math.min(first, second);
  // Where both are cut, the odd token stays with the longer text, and with the second of two equally long ones.
  const [small, large] = shorter <= half ? [shorter, room - shorter] : [half, room - half];
  return first > second ? [large, small] : [small, large];
}

/** Tokens of a layout that are not the texts' own. */
export function countSpecialTokens(parts: readonly LayoutPart[]): number {
  return parts.reduce((count, part) => count + ("token" in part ? 1 : 0), 0);
}

/** How many tokens of each text fit into maxLength beside the layout's special tokens. */
export function fitLengths(parts: readonly LayoutPart[], lengths: readonly number[], maxLength: number): number[] {
  const special = countSpecialTokens(parts);
  if (!(maxLength >= special)) {
    throw new RangeError(
      `maximum length: expected at least ${special} (the special tokens alone), received ${maxLength}`,
    );
  }
  return truncateLengths(lengths, Math.floor(maxLength) - special);
}

/** Puts the texts' tokens into their places, the ends cut to maxLength. */
export function buildSequence(
  parts: readonly LayoutPart[],
  texts: readonly (readonly number[])[],
  maxLength: number,
): Encoding {
  const lengths = texts.map((text) => text.length);
  const kept = fitLengths(parts, lengths, maxLength);
  const total = kept.reduce((sum, length) => sum + length, countSpecialTokens(parts));
  const ids = new Int32Array(total);
  const types = new Int32Array(total);
  let at = 0;
  for (const part of parts) {
    const start = at;
    if ("token" in part) ids[at++] = part.token;
    else {
      const text = texts[part.field]!;
      for (let index = 0; index < kept[part.field]!; index++) ids[at++] = text[index]!;
    }
    if (part.type !== 0) types.fill(part.type, start, at);
  }
  // A text that was not read to its end is longer than its room, too.
  return { ids, tokenTypeIds: types, truncated: kept.some((length, field) => length < lengths[field]!) };
}
