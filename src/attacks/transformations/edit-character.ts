import type { EditedText } from "../edited-text.js";
import type { Transformation } from "../protocol.js";

/** A place in a text where one character can change: a character, or the gap before it. */
export interface CharacterPlace {
  readonly field: number;
  readonly index: number;
  /** True for the gap before the character at the index. */
  readonly isGap: boolean;
}

/** All places of the fields: each character, the gaps between them, and the gap at the end. */
export function listCharacterPlaces({ texts }: EditedText, fields: readonly number[]): CharacterPlace[] {
  return fields.flatMap((field) => {
    const { length } = [...texts[field]!];
    return Array.from({ length: 2 * length + 1 }, (_, i) => ({ field, index: i >> 1, isGap: i % 2 === 0 }));
  });
}

/**
 * Inserts a character in a gap, or replaces a character. An empty string deletes the character.
 * Null if this changes nothing.
 */
export function editCharacter(
  text: EditedText,
  { field, index, isGap }: CharacterPlace,
  character: string,
): EditedText | null {
  const characters = [...text.texts[field]!];
  if (isGap ? character === "" : characters[index] === character) return null;
  const changed = characters.toSpliced(index, isGap ? 0 : 1, character).join("");
  return text.apply({ kind: "rewrite", texts: text.texts.with(field, changed) });
}

/** All texts at Levenshtein distance 1 with characters of an alphabet. */
export function editCharacters(alphabet: readonly string[]): Transformation {
  return {
    name: `one of ${alphabet.length} characters inserted, replaced or deleted anywhere`,
    kind: "text",
    apply(text, positions) {
      const fields = [...new Set(positions.map((position) => text.slots[position]!.field))];
      return listCharacterPlaces(text, fields).flatMap((place) =>
        [...alphabet, ""].flatMap((character) => editCharacter(text, place, character) ?? []),
      );
    },
  };
}
