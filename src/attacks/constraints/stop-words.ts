import { nltkStopWords } from "../../text/stop-words.js";
import type { Constraint } from "../recipe.js";

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
