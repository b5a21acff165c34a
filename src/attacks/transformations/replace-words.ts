import type { EditedText } from "../edited-text.js";

/** Replaces the word at each position by each of some others. `i` counts the positions. */
export function replaceWords(
  text: EditedText,
  positions: readonly number[],
  listWords: (word: string, i: number) => readonly string[],
): EditedText[] {
  return positions.flatMap((position, i) => {
    const old = text.getWord(position);
    const words = listWords(old, i).filter((word) => word !== old);
    return words.map((word) => text.apply({ kind: "replace", position, word }));
  });
}
