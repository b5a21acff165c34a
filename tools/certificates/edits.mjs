// Edits of texts: words that are replaced, inserted, deleted, glued and split, characters that nobody sees, and look-alikes.
import { findWords } from "../../dist/text/find-words.js";

/** @typedef {import("../../dist/base/rng.js").Rng} Rng */

/** @template T @param {Rng} rng @param {readonly T[]} list @returns {T} */
export const pick = (rng, list) => /** @type {T} */ (list[rng.integer(list.length)]);

/** Characters without width, one tag, a direction mark, and a selector. */
const unseen = ["\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u{e0061}", "\u202e", "\ufe0f", "\u034f"];

/**
 * Changes of one word in a list of words, each with a name. `pool` are the words that come. A change that glues or splits
 * words changes several words, so its distance is computed from the text.
 * @type {Readonly<Record<string, (words: string[], at: number, rng: Rng, pool: readonly string[]) => string[]>>}
 */
export const wordChanges = {
  replaced: (words, at, rng, pool) => words.with(at, pick(rng, pool)),
  inserted: (words, at, rng, pool) => words.toSpliced(at, 0, pick(rng, pool)),
  deleted: (words, at) => words.toSpliced(at, 1),
  glued: (words, at) => words.toSpliced(at, 2, words.slice(at, at + 2).join("")),
  affixed: (words, at, rng, pool) => {
    const [word = "", other] = [words[at], pick(rng, pool)];
    return words.with(at, rng.next() < 0.5 ? `${word}${pick(rng, ["", "-", "_", "'"])}${other}` : `${other}${word}`);
  },
  split: (words, at, rng) => {
    const word = words[at] ?? "";
    const middle = rng.integer(word.length + 1);
    return words.toSpliced(at, 1, word.slice(0, middle), word.slice(middle));
  },
  unseen: (words, at, rng) => {
    const word = words[at] ?? "";
    const middle = rng.integer(word.length + 1);
    return words.with(at, word.slice(0, middle) + pick(rng, unseen).repeat(1 + rng.integer(12)) + word.slice(middle));
  },
};

/** Joins words by white space and punctuation, which no certificate of word edits counts. @param {Rng} rng */
export function joinWords(/** @type {readonly string[]} */ words, rng) {
  return words.map((word) => word + pick(rng, [" ", " ", " ", "  ", "\n", ", ", ". ", "\u3000", " … "])).join("");
}

/** Insertions and deletions that turn one list into another, up to a limit. @param {readonly string[]} a @param {readonly string[]} b */
export function countIndels(a, b) {
  let previous = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (const [i, word] of a.entries()) {
    const next = [i + 1];
    for (const [j, other] of b.entries())
      next.push(word === other ? Number(previous[j]) : 1 + Math.min(Number(previous[j + 1]), Number(next[j])));
    previous = next;
  }
  return Number(previous.at(-1));
}

const shift = (/** @type {number} */ first, /** @type {string} */ from) => (/** @type {string} */ letter) =>
  String.fromCodePoint(first + letter.charCodeAt(0) - from.charCodeAt(0));
/** Look-alikes of ASCII letters. Each keeps what a person reads. @type {((letter: string) => string)[]} */
const forms = [
  shift(0xff41, "a"),
  shift(0x1d5ba, "a"),
  shift(0x24d0, "a"),
  (letter) => shift(0x1f170, "A")(letter.toUpperCase()),
  (letter) => shift(0x1f150, "A")(letter.toUpperCase()),
  (letter) => shift(0x1f1e6, "A")(letter.toUpperCase()),
  (letter) => `${letter}\u0336`,
  (letter) => letter + "\u0301\u0302\u0303\u0304".repeat(3),
  (letter) => "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘꞯʀꜱᴛᴜᴠᴡxʏᴢ"[letter.charCodeAt(0) - 97] ?? letter,
  (letter) => ({ a: "а", c: "с", e: "е", i: "і", o: "о", p: "р", x: "х", y: "у" })[letter] ?? letter,
  (letter) => `\u200b${letter}\u2060`,
  (letter) => `${letter}\u202c`,
];

/** Writes one message so that nobody sees it: as tags, or as bytes in selectors. @param {string} message @param {Rng} rng */
export function hide(message, rng) {
  const codes = Array.from(message, (each) => each.charCodeAt(0));
  if (rng.next() < 0.5) return String.fromCodePoint(...codes.map((code) => 0xe0000 + code));
  return String.fromCodePoint(...codes.map((code) => (code < 16 ? 0xfe00 + code : 0xe0100 + code - 16)));
}

/**
 * Writes a text in lower case otherwise, so that a person reads the same: whole words in look-alikes, other white space, and
 * hidden characters in new places.
 * @param {string} text @param {string} hidden what is hidden in it, or nothing @param {Rng} rng
 */
export function imitate(text, hidden, rng) {
  const words = text.split(" ").map((word) => {
    if (!/^[a-z]{2,}$/.test(word) || rng.next() < 0.4) return word;
    const form = pick(rng, forms);
    return Array.from(word, form).join("");
  });
  const at = rng.integer(words.length + 1);
  const parts = hidden === "" ? words : words.toSpliced(at, 0, hide(hidden, rng));
  return parts.map((part) => part + pick(rng, [" ", "  ", "\t", "\u00a0", "\u3000", " \u200e"])).join("");
}

/** The words of a text. @param {string} text */
export const listWords = (text) => findWords(text).map(({ start, end }) => text.slice(start, end));
