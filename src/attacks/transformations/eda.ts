import type { Transformation } from "../protocol.js";
import type { NeighborTable } from "../resources.js";
import { tagPositions } from "./swap-neighbors.js";

/** Exchanges a word with a random other word of the same field (EDA's random swap). */
export const exchangeWords: Transformation = {
  name: "two words exchanged",
  kind: "text",
  apply: (text, positions, rng) =>
    positions.flatMap((position) => {
      const { field } = text.slots[position]!;
      const others = positions.filter((other) => other !== position && text.slots[other]!.field === field);
      if (others.length === 0) return [];
      const other = others[rng.integer(others.length)]!;
      const words = new Map([
        [position, text.getWord(other)],
        [other, text.getWord(position)],
      ]);
      return [text.replaceAll(words)];
    }),
};

/** Inserts a synonym of a word before a random word (EDA's random insertion). */
export function insertSynonyms(table: NeighborTable): Transformation {
  return {
    name: "a synonym inserted",
    kind: "insert",
    *apply(text, positions, rng) {
      const tags = table.usesPartOfSpeech ? yield* tagPositions(text, positions) : [];
      return positions.flatMap((position, i) => {
        const synonyms = table.getSubstitutes(text.getWord(position), tags[i]);
        if (synonyms.length === 0) return [];
        const word = synonyms[rng.integer(synonyms.length)]!;
        return [text.apply({ kind: "insert", position: positions[rng.integer(positions.length)]!, word })];
      });
    },
  };
}
