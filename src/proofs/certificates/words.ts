import { findWords } from "../../text/find-words.js";

/**
 * A number of word edits: so many substitutions of a word by any word, and so many insertions or
 * deletions of a word, in any order.
 */
export interface WordEdits {
  readonly substitutions: number;
  /** Insertions and deletions together. */
  readonly insertions: number;
}

/** The edits that certificates of word edits are about. */
export const coversWordEdits = "any substitutions, insertions and deletions of words, up to the number in the row";

/**
 * The words of a text. Every certificate counts edits in this sequence and gives the model nothing
 * but these words, joined by spaces. So punctuation and spacing that do not change the sequence do
 * not change the result. A space inside a word is one substitution and one insertion.
 */
export function getWords(text: string): string[] {
  return findWords(text).map(({ start, end }) => text.slice(start, end));
}
