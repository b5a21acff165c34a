import type { Constraint } from "../protocol.js";

/** A word changes at most once, and no two words are inserted next to each other. */
export const noRepeat: Constraint = {
  name: "repeat",
  isOpen: (text, position, kind) =>
    kind === "insert"
      ? text.slots[position]!.origin >= 0 && text.slots[position - 1]?.origin !== -1
      : !text.isChanged(position),
};
