import { tagPartsOfSpeech } from "../../text/part-of-speech.js";
import type { EditedText } from "../edited-text.js";
import type { Transformation } from "../protocol.js";
import type { NeighborTable } from "../resources.js";
import { replaceWords } from "./replace-words.js";

/** Words per list, with the word itself: as many as RIFT's attack space has. */
const maxListed = 10;

/**
 * Replaces a word by the substitutes of the original word in its place, best first. A word that was
 * replaced can also become the original word again.
 */
export function swapFromTable(table: NeighborTable): Transformation {
  const known = new WeakMap<EditedText, readonly (readonly string[])[]>();
  const getLists = (original: EditedText): readonly (readonly string[])[] => {
    const lists = known.get(original) ?? listSubstitutes(original.words, table);
    known.set(original, lists);
    return lists;
  };
  return {
    name: `up to ${maxListed - 1} substitutes of a word (${table.name})`,
    kind: "swap",
    isTable: true,
    // The first word of a list is the original one, which is no replacement of itself.
    apply: (text, positions) =>
      replaceWords(text, positions, (_, i) => getLists(text.original)[text.getOrigin(positions[i]!)] ?? []),
  };
}

/** The words of a text, each with its substitutes. */
function listSubstitutes(words: readonly string[], table: NeighborTable): string[][] {
  const tags = table.usesPartOfSpeech ? tagPartsOfSpeech(words) : undefined;
  return words.map((word, i) => [word, ...table.getSubstitutes(word, tags?.[i])].slice(0, maxListed));
}
