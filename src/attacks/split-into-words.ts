import { splitWords } from "../text/words.js";

/** Splits texts into words, with the field of each word. */
export function splitIntoWords(texts: readonly string[]): { words: string[]; fields: number[] } {
  const split = texts.map(splitWords);
  return { words: split.flat(), fields: split.flatMap((words, field) => words.map(() => field)) };
}
