import type { Transformation } from "../protocol.js";
import { nameTables } from "./name-tables.js";

/** Candidates per name. */
const count = 3;

/** The names of the same kind, by name. The first kind that contains a name decides. */
const namesOfKind = new Map(
  Object.values(nameTables)
    .toReversed()
    .flatMap((names) => names.map((name) => [name, names] as const)),
);

/** Replaces first names, last names, countries, nationalities and cities by random others. */
export const changeNames: Transformation = {
  name: "other names of people and places",
  kind: "swap",
  apply: (text, positions, rng) =>
    positions.flatMap((position) => {
      const word = text.getWord(position);
      const others = namesOfKind.get(word)?.filter((name) => name !== word) ?? [];
      return rng
        .shuffle([...others])
        .slice(0, count)
        .map((name) => text.apply({ kind: "replace", position, word: name }));
    }),
};
