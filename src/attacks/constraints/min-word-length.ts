import type { Constraint } from "../protocol.js";

/** Only words of at least this many characters change. */
export function minWordLength(length: number): Constraint {
  return {
    name: `words of at least ${length} characters`,
    isOpen: (text, position) => text.getWord(position).length >= length,
  };
}
