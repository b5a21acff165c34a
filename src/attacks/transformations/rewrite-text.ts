import type { Transformation } from "../protocol.js";
import { confusables, leetDigits } from "./character-tables.js";

const zeroWidthSpace = "\u200b";
/** Right-to-left override and its end: the reversed characters are displayed in reading order. */
const [rightToLeft, endOfOverride] = ["\u202e", "\u202c"];

const mapCharacters =
  (table: ReadonlyMap<string, string>) =>
  (word: string): string =>
    [...word].map((character) => table.get(character) ?? table.get(character.toLowerCase()) ?? character).join("");

/** Ways to write words so that people can still read them. */
export const rewritings = {
  "letter-spacing": (word: string) => [...word].join(" "),
  homoglyphs: mapCharacters(confusables),
  "zero-width": (word: string) => [...word].join(zeroWidthSpace),
  bidirectional: (word: string) => `${rightToLeft}${[...word].reverse().join("")}${endOfOverride}`,
  leetspeak: mapCharacters(leetDigits),
} as const;
export type Rewriting = keyof typeof rewritings;

/** Rewrites every open word of a text. */
export function rewriteText(rewriting: Rewriting): Transformation {
  return {
    name: `${rewriting} in the complete text`,
    kind: "text",
    apply: (text, positions) => [
      text.replaceAll(new Map(positions.map((position) => [position, rewritings[rewriting](text.getWord(position))]))),
    ],
  };
}

/** Rewrites one word. */
export function rewriteWord(rewriting: Rewriting): Transformation {
  return {
    name: `${rewriting} in a word`,
    kind: "swap",
    apply: (text, positions) =>
      positions.map((position) =>
        text.apply({ kind: "replace", position, word: rewritings[rewriting](text.getWord(position)) }),
      ),
  };
}
