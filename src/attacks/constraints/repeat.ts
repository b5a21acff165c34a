import type { Constraint } from "../recipe.js";

/** A word changes at most once. */
export const noRepeat: Constraint = {
  name: "repeat",
  isOpen: (text, position) => !text.isChanged(position),
};
