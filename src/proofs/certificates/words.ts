import { findWords } from "../../text/find-words.js";
import type { TextFields } from "./scoring.js";

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

/** The words of a text with fields. Fields that nobody may edit stay as they are. */
export interface FieldWords {
  /** The words of each editable field; null for a field that stays as it is. */
  readonly words: readonly (readonly string[] | null)[];
  readonly texts: TextFields;
}

/** Splits the editable fields of a text into words; without a list, every field is editable. */
export function splitFields(texts: TextFields, editableFields?: readonly number[]): FieldWords {
  const words = texts.map((text, field) => (editableFields?.includes(field) === false ? null : getWords(text)));
  return { words, texts };
}

/**
 * Rebuilds a text from its editable words: `change` returns the word, another word, or null to
 * delete it. `index` counts the words of all fields.
 */
export function mapFieldWords(
  { words, texts }: FieldWords,
  change: (word: string, index: number) => string | null,
): string[] {
  let index = 0;
  return texts.map((text, field) => {
    const changed = words[field]?.map((word) => change(word, index++)).filter((word) => word !== null);
    return changed?.join(" ") ?? text;
  });
}

/** The number of words in all editable fields. */
export function countWords({ words }: FieldWords): number {
  return words.reduce((sum, list) => sum + (list?.length ?? 0), 0);
}
