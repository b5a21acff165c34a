import { UserError } from "../../base/errors.js";
import type { LmConstraint } from "../../text/lm-constraint.js";
import type { EditedText } from "../edited-text.js";
import type { Constraint } from "../protocol.js";

/** A substitute is one of those that a language model allows for the original word (RIFT). */
export function allowedByLanguageModel(languageModel: LmConstraint): Constraint {
  const known = new WeakMap<EditedText, readonly (readonly string[])[]>();
  const find = (original: EditedText): readonly (readonly string[])[] => {
    const found = known.get(original) ?? listAllowed(original, languageModel);
    known.set(original, found);
    return found;
  };
  return {
    name: `allowed by ${languageModel.name}`,
    allows({ edit, origin, original }) {
      if (edit?.kind !== "replace" || origin < 0 || edit.word === original.getWord(origin)) return true;
      return find(original)[origin]!.includes(edit.word.toLowerCase());
    },
  };
}

/** The lowercase substitutes of each word. Fields that the file does not have allow none. */
function listAllowed({ texts, slots }: EditedText, languageModel: LmConstraint): (readonly string[])[] {
  if (!texts.some((text) => languageModel.covers(text)))
    throw new UserError(
      `--lm-constraint ${languageModel.name} does not contain "${texts.join(" | ").slice(0, 60)}". Create it from ` +
        "the attacked texts.",
    );
  return texts.flatMap((text, field) => {
    const own = slots.filter((slot) => slot.field === field);
    return languageModel.getAllowedSubstitutes(text, own) ?? own.map(() => []);
  });
}
