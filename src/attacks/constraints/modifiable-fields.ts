import type { Constraint } from "../protocol.js";

/** Only the words of some fields change, such as the hypothesis of a pair. */
export function onlyFields(fields: readonly number[]): Constraint {
  return {
    name: "fields",
    isOpen: (text, position) => fields.includes(text.slots[position]!.field),
  };
}
