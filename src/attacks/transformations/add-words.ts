import type { EditedText } from "../edited-text.js";
import type { Transformation } from "../protocol.js";

/** Adds one of some words at the end of the last field that may change. */
export function appendWords(words: readonly string[]): Transformation {
  return {
    name: `one of ${words.length} words at the end`,
    kind: "append",
    apply: (text, positions) => {
      const field = text.slots[positions.at(-1)!]!.field;
      return words.map((word) => text.apply({ kind: "append", field, word }));
    },
  };
}

/** Adds each of some words before a random word. */
export function insertWords(words: readonly string[]): Transformation {
  return {
    name: `one of ${words.length} words before a random word`,
    kind: "insert",
    apply: (text, positions, rng) =>
      words.map((word) => text.apply({ kind: "insert", position: positions[rng.integer(positions.length)]!, word })),
  };
}

/**
 * Puts many words before, inside or after the text. A classifier that reads a limited number of tokens
 * then truncates the text itself, and one that averages over words finds few bad ones.
 */
export function addPadding(
  words: readonly string[],
  count: number,
  place: "before" | "inside" | "after" = "before",
): Transformation {
  const word = Array.from({ length: count }, (_, i) => words[i % words.length]!).join(" ");
  return {
    name: `${count} words ${place} the text`,
    kind: "text",
    apply: (text: EditedText, positions) => {
      const { field } = text.slots[positions[0]!]!;
      if (place === "inside")
        return [text.apply({ kind: "insert", position: positions[Math.floor(positions.length / 2)]!, word })];
      return [text.apply({ kind: place === "before" ? "prepend" : "append", field, word })];
    },
  };
}
