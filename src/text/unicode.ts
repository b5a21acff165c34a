import { accents, ideographs, inert, letters, numbers, punctuation, removed, whiteSpace } from "./unicode-tables.js";

/** First and last code point of every range of a packed class. */
function unpackRanges(packed: string): [number, number][] {
  let end = -1;
  return packed.split(/\s/).map((part) => {
    const [gap, more = "0"] = part.split("-");
    const first = end + Number.parseInt(gap!, 36);
    end = first + Number.parseInt(more, 36);
    return [first, end];
  });
}

export const SPACE = 1;
export const PUNCTUATION = 2;
export const REMOVED = 4;
export const IDEOGRAPH = 8;
export const ACCENT = 16;
export const LETTER = 32;
export const NUMBER = 64;

/** What the official rules say of every code point: a set of the flags above. */
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

/** Canonical decomposition as the official normaliser does it, at its own Unicode version. */
export function decompose(text: string): string {
  if (!inertCharacter.test(text)) return text.normalize("NFD");
  return text
    .split(inertCharacter)
    .map((part, index) => (index % 2 === 1 ? part : part.normalize("NFD")))
    .join("");
}

/** Half a surrogate pair cannot be written in UTF-8: it becomes the replacement character, as it would on its way to a file. */
export function toWellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, "\ufffd");
}
