import { getConfusable } from "./confusables.js";
import { foldVisible } from "./fold-visible.js";
import { decodeInvisible, invisible } from "./hidden-text.js";

/** Scripts whose spelling needs joiners: those of Persian, Urdu and India. */
const joining =
  "\\p{Script=Arabic}\\p{Script=Syriac}\\p{Script=Mongolian}\\p{Script=Devanagari}\\p{Script=Bengali}\\p{Script=Gurmukhi}" +
  "\\p{Script=Gujarati}\\p{Script=Oriya}\\p{Script=Tamil}\\p{Script=Telugu}\\p{Script=Kannada}\\p{Script=Malayalam}\\p{Script=Sinhala}";
/** One joiner between letters of these scripts, and between the parts of an emoji. */
const neededJoiner =
  `(?<=[${joining}])[\\u200c\\u200d](?=[${joining}])|` +
  "(?<=[\\p{Extended_Pictographic}\\p{Emoji_Modifier}]\\ufe0f?)\\u200d(?=\\p{Extended_Pictographic})";
const removed = new RegExp(`(?!${neededJoiner})(?:${invisible})`, "gu");
/** A letter with more marks than any script uses. Sorting them would take quadratic time. */
const manyMarks = /(\p{M}{16})\p{M}+/gu;
/** A word with its marks, or another character. */
const wordOrCharacter = /[\p{L}\p{N}][\p{L}\p{M}\p{N}]*|[^\0-\x7f]/gu;
/**
 * Three or more single letters with the same separator between them: v i a g r a, v.i.a.g.r.a.
 */
const letter = "\\p{L}\\p{M}*";
const spacedLetters = new RegExp(
  `(?<![\\p{L}\\p{M}\\p{N}])${letter}([ .*_|~-])${letter}(?:\\1${letter})+(?![\\p{L}\\p{M}\\p{N}])`,
  "gu",
);

/**
 * The canonical form of a text: compatibility characters are replaced (NFKC), invisible and
 * bidirectional characters removed, characters that look like an ASCII character become that
 * character (also framed, struck-through and upside-down ones), spaced letters are joined, and runs
 * of white space become one space. Text that invisible characters encode is decoded and comes last.
 *
 * A model that reads canonical forms, f(canonicalize(x)), gives the same answer to all texts with
 * the same visible and the same hidden text, both in this form. This is an exact certificate for
 * that class, without a limit of edits.
 * The function is idempotent, so a canonical text is its own representative.
 */
export function canonicalize(text: string): string {
  // Each round either keeps the text or removes characters that are not canonical. A round can make
  // work for the next one: a Cyrillic letter and a mark become a Latin letter, which composes.
  let current = text;
  for (;;) {
    const next = canonicalizeOnce(current);
    if (next === current) return next;
    current = next;
  }
}

function canonicalizeOnce(text: string): string {
  // Most texts are plain, and nothing else changes in them.
  if (/^[\t\n\r -~]*$/.test(text)) return joinLetters(text);
  const hidden = decodeInvisible(text);
  const visible = text.replaceAll(removed, "") + (hidden && ` ${hidden}`);
  const composed = visible.replaceAll(manyMarks, "$1").normalize("NFKC");
  const folded = foldVisible(composed).replaceAll(wordOrCharacter, foldConfusables);
  return joinLetters(folded);
}

function joinLetters(text: string): string {
  const spaced = text.replaceAll(/[\s\u2800]+/gu, " ").trim();
  return spaced.replaceAll(spacedLetters, (run, separator: string) => run.replaceAll(separator, ""));
}

/**
 * Folds a word that has Latin letters besides others, or in which every letter looks like an ASCII
 * character. So every imitation of a Latin word is folded, but other words and numbers of other
 * scripts stay as they are.
 */
function foldConfusables(word: string): string {
  const characters = [...word];
  const isImitation =
    /[0-9\P{N}]/u.test(word) &&
    characters.every((each) => getConfusable(each) !== undefined || /[\0-\x7f\p{M}]/u.test(each));
  if (!isImitation && !/\p{Script=Latin}/u.test(word)) return word;
  return characters.map((each) => getConfusable(each) ?? each).join("");
}
