import type { Rng } from "../../src/base/rng.js";

const ranges: readonly (readonly [number, number])[] = [
  [0x20, 0x7e],
  [0x61, 0x7a],
  [0x00, 0x1f],
  [0x7f, 0x24f], // control characters and Latin
  [0x300, 0x36f], // combining marks
  [0x370, 0x5ff], // Greek, Cyrillic, Hebrew
  [0x600, 0x1fff], // scripts of Asia, many with combining marks
  [0x2000, 0x206f], // spaces, dashes, direction marks, zero-width joiners
  [0x2070, 0x2fff],
  [0x3000, 0x30ff],
  [0x4e00, 0x9fff],
  [0xac00, 0xd7a3],
  [0xe000, 0xf8ff], // private use
  [0xf900, 0xffff],
  [0x10000, 0x1ffff], // astral letters, marks and emoji
  [0x1f300, 0x1faff],
  [0x20000, 0x2fa1f], // astral ideographs
  [0xe0000, 0xe01ef],
  [0xd800, 0xdfff], // lone surrogates
];

const snippets = [
  ...["[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]", "[sep]", "[SEP", "<s>", "</s>", "<mask>", "<pad>", "<unk>"],
  ...[" <mask> ", "  <mask>", "<mask> ", "don't", "I'LL", "it's", "we've", "x'", "''s", "café", "cafe\u0301"],
  ...["Ångström", "İstanbul", "ΟΔΟΣ", "straße", "ﬁne", "naïve", "Σ", "👩‍👩‍👧", "👍🏽", "❤️", "🇨🇭", "中文字", "𠀀𪚥"],
  ...["日本語です", "한국어", "हिन्दी", "ไทย", "مرحبا", "שלום", "\u200b", "\u00ad", "\ufeff", "\u0085", "\u00a0"],
  ...["\u2028", "\t", "\n", "\r\n", "  ", "   \n  ", " ", "...", "--", "$3.50", "1,000,000", "10:30", "²", "Ⅷ"],
  ...["½", "unbelievable", "The film", "<br />", "\ufffd", "\0", "supercalifragilisticexpialidocious", "##ing"],
  ...["_", "a_b", "`", "“quoted”", "e\u0323\u0302\u0301", "\u0301a", "\u1e9e", "\u01c5", "\u0345"],
  ...["\u1abf\u08d4"],
];

/** Creates an unusual text: rare scripts, control characters, invalid Unicode, very long words. */
export function strangeText(rng: Rng): string {
  if (rng.next() < 0.004) return longWord(rng);
  const parts = rng.integer(rng.next() < 0.1 ? 40 : 9);
  let text = "";
  for (let part = 0; part < parts; part++) {
    const kind = rng.next();
    if (kind < 0.35) text += snippets[rng.integer(snippets.length)]!;
    else if (kind < 0.6) text += " ";
    else {
      const [first, last] = ranges[rng.integer(ranges.length)]!;
      const length = 1 + rng.integer(6);
      for (let index = 0; index < length; index++) text += String.fromCodePoint(first + rng.integer(last - first + 1));
    }
  }
  return text;
}

/** Lengths near WordPiece's limit of 100 characters, and far above it. */
function longWord(rng: Rng): string {
  const letters = ["a", "ab", "xyz", "é", "e\u0301", "𝒳", "!", "un"];
  const length = rng.next() < 0.7 ? 95 + rng.integer(10) : 1000 + rng.integer(2000);
  return letters[rng.integer(letters.length)]!.repeat(length).slice(0, length);
}
