import { type PartOfSpeech, tagPartsOfSpeech } from "../../text/part-of-speech.js";
import type { EditedText } from "../edited-text.js";
import type { Transformation } from "../recipe.js";
import type { NeighborTable } from "../resources.js";

/** Replaces a word by each of its nearest neighbors, in the letter case of the word. */
export function swapNeighbors(table: NeighborTable, maxCandidates: number): Transformation {
  const tag = createTagger(table.usesPartOfSpeech);
  return {
    name: `up to ${maxCandidates} neighbors of a word (${table.name})`,
    kind: "swap",
    apply: (text, positions) =>
      positions.flatMap((position) =>
        table
          .getSubstitutes(text.getWord(position), tag(text, position))
          .slice(0, maxCandidates)
          .map((word) => text.apply({ kind: "replace", position, word })),
      ),
  };
}

/** Returns a function that gives the part of speech of a word in the original text. */
export function createTagger(isUsed: boolean): (text: EditedText, position: number) => PartOfSpeech | undefined {
  const known = new WeakMap<EditedText, readonly PartOfSpeech[]>();
  return (text, position) => {
    if (!isUsed) return undefined;
    const tags = known.get(text.original) ?? tagPartsOfSpeech(text.original.words);
    known.set(text.original, tags);
    return tags[text.slots[position]!.origin] ?? "other";
  };
}
