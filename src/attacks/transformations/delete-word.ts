import type { Transformation } from "../protocol.js";

/** Deletes a word. At least one word remains. */
export const deleteWord: Transformation = {
  name: "word deletion",
  kind: "delete",
  apply: (text, positions) =>
    text.length < 2 ? [] : positions.map((position) => text.apply({ kind: "delete", position })),
};
