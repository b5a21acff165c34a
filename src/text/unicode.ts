import { normalizeUnicode } from "./normalize.js";
import { accents, ideographs, inert, letters, numbers, punctuation, removed, whiteSpace } from "./unicode-tables.js";

/** Unpacks a character class into the first and last code points of its ranges. */
function unpackRanges(packed: string): [number, number][] {
  let end = -1;
  return packed.split(/\s/).map((part) => {
    const [gap, more = "0"] = part.split("-");
    const first = end + Number.parseInt(gap!, 36);
    end = first + Number.parseInt(more, 36);
    return [first, end];
  });
}

/** White space between words. */
export const SPACE = 1;
/** Punctuation: every character is a word (BERT). */
export const PUNCTUATION = 2;
/** Control, format and private-use characters that cleaning removes. */
export const REMOVED = 4;
/** Characters that get a space on both sides. */
export const IDEOGRAPH = 8;
/** Non-spacing marks that accent stripping removes. */
export const ACCENT = 16;
/** Letters (byte-level BPE). */
export const LETTER = 32;
/** Numbers (byte-level BPE). */
export const NUMBER = 64;

/** The flags above for every code point, as in the official tokenizers. */
export const characterFlags = new Uint8Array(0x110000);
for (const [packed, flag] of [
  [whiteSpace, SPACE],
  [punctuation, PUNCTUATION],
  [removed, REMOVED],
  [ideographs, IDEOGRAPH],
  [accents, ACCENT],
  [letters, LETTER],
  [numbers, NUMBER],
] as const) {
  for (const [first, last] of unpackRanges(packed))
    for (let code = first; code <= last; code++) characterFlags[code]! |= flag;
}

const inertCharacter = new RegExp(
  `([${unpackRanges(inert)
    .map(([first, last]) => `\\u{${first.toString(16)}}-\\u{${last.toString(16)}}`)
    .join("")}])`,
  "u",
);

/** Applies the canonical decomposition of the Unicode version that the official normalizer uses. */
export function decompose(text: string): string {
  if (!inertCharacter.test(text)) return normalizeUnicode(text, "NFD");
  return text
    .split(inertCharacter)
    .map((part, index) => (index % 2 === 1 ? part : normalizeUnicode(part, "NFD")))
    .join("");
}

/** Replaces lone surrogates, which cannot be written in UTF-8, by the replacement character. */
export function toWellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, "\ufffd");
}
