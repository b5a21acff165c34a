import { nltkStopWords } from "../../text/stop-words.js";
import type { Constraint } from "../protocol.js";

/** Stop words are not replaced. In TextAttack, only lowercase words are stop words. */
export function keepStopWords(
  options: { readonly words?: ReadonlySet<string>; readonly caseSensitive?: boolean } = {},
): Constraint {
  const { words = nltkStopWords, caseSensitive = false } = options;
  return {
    name: "stop words",
    isOpen(text, position, kind) {
      if (kind !== "swap") return true;
      const word = text.getWord(position);
      return !words.has(caseSensitive ? word : word.toLowerCase());
    },
  };
}

/**
 * Stop words stay, and no new word is a stop word: the constraint of a request, for every kind of
 * change.
 */
export const protectStopWords: Constraint = {
  name: "stop words are neither changed nor added",
  isOpen: (text, position, kind) =>
    kind === "insert" || kind === "append" || !nltkStopWords.has(text.getWord(position).toLowerCase()),
  allows(candidate, current) {
    const { edit } = candidate;
    if (edit === null || !("word" in edit)) return true;
    // A word may become the original one again.
    const isBack = edit.kind === "replace" && edit.word === current.original.words[candidate.origin];
    return isBack || !edit.word.split(/\s+/).some((word) => nltkStopWords.has(word.toLowerCase()));
  },
};
