import { z } from "zod";
import { maxLikelihoodDrop } from "../../attacks/constraints/likelihood.js";
import { maxWordsChanged } from "../../attacks/constraints/max-words-changed.js";
import { onlyFields } from "../../attacks/constraints/modifiable-fields.js";
import { samePartOfSpeech } from "../../attacks/constraints/part-of-speech.js";
import { protectedKinds, protectSpans } from "../../attacks/constraints/protected-spans.js";
import { keepStopWords } from "../../attacks/constraints/stop-words.js";
import type { Constraints } from "../../attacks/constraints.js";
import type { Constraint } from "../../attacks/recipe.js";
import type { RecipeResources } from "../../attacks/resources.js";
import { getErrorMessage, UserError } from "../../errors.js";

/** The parts of a text that no attack may change. */
export const protectionOptions = {
  protectedText: z
    .array(z.enum(protectedKinds))
    .default([])
    .describe(`kinds of text that stay as they are: ${protectedKinds.join(", ")}`),
  protect: z.array(z.string()).default([]).describe("regular expression for text that stays as it is"),
};

interface ProtectionRequest {
  readonly protectedText: readonly (typeof protectedKinds)[number][];
  readonly protect: readonly string[];
}

/** The constraint for protected text; null if nothing is protected. */
export function createProtection({ protectedText, protect }: ProtectionRequest): Constraint | null {
  if (protectedText.length === 0 && protect.length === 0) return null;
  const custom = protect.map((source) => {
    try {
      return new RegExp(source, "gu");
    } catch (error) {
      throw new UserError(`--protect: expected a regular expression, received "${source}": ${getErrorMessage(error)}`);
    }
  });
  return protectSpans(protectedText, custom);
}

/** The constraints of a request, as a recipe applies them. */
export function createRequestConstraints(
  request: ProtectionRequest & Constraints & { readonly maxLikelihoodDrop: number | null },
  modifiableFields: readonly number[],
  { mlm }: Partial<RecipeResources>,
): Constraint[] {
  const { maxModificationRate, protectStopWords, matchPartOfSpeech, maxLikelihoodDrop: drop } = request;
  if (drop !== null && !mlm)
    throw new UserError("--max-likelihood-drop needs a masked language model. Pass --masked-lm MODEL.");
  const protection = createProtection(request);
  return [
    onlyFields(modifiableFields),
    ...(maxModificationRate < 1 ? [maxWordsChanged({ fraction: maxModificationRate })] : []),
    ...(protectStopWords ? [keepStopWords()] : []),
    ...(matchPartOfSpeech ? [samePartOfSpeech({ allowsNounVerb: false })] : []),
    ...(protection ? [protection] : []),
    ...(drop !== null ? [maxLikelihoodDrop(mlm!, drop)] : []),
  ];
}
