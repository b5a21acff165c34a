import { z } from "zod";
import { maxLikelihoodDrop } from "../../attacks/constraints/likelihood.js";
import { samePartOfSpeech } from "../../attacks/constraints/part-of-speech.js";
import { protectedKinds, protectSpans } from "../../attacks/constraints/protected-spans.js";
import { maxModificationRate, onlyFields, protectStopWords } from "../../attacks/constraints/words.js";
import type { Constraint } from "../../attacks/protocol.js";
import type { AttackResources } from "../../attacks/resources.js";
import { getErrorMessage, UserError } from "../../base/errors.js";
import { orNull } from "../../base/validate.js";

export const constraintOptions = {
  maxModificationRate: orNull(z.number().gt(0).max(1), "1").describe(
    "maximum fraction of words to change per text, rounded up",
  ),
  protectStopWords: z.boolean().default(false).describe("never change or insert a stop word"),
  matchPartOfSpeech: z
    .boolean()
    .default(false)
    .describe("a substitute must have the same part of speech as the word, in context"),
  maxLikelihoodDrop: orNull(z.number().min(0)).describe(
    "maximum drop of a word's log-likelihood, by the masked language model",
  ),
  protectedText: z
    .array(z.enum(protectedKinds))
    .default([])
    .describe(`kinds of text that stay as they are: ${protectedKinds.join(", ")}`),
  protect: z.array(z.string()).default([]).describe("regular expression for text that stays as it is"),
};

function parseExpression(source: string): RegExp {
  try {
    return new RegExp(source, "gu");
  } catch (error) {
    throw new UserError(`--protect: expected a regular expression, received "${source}": ${getErrorMessage(error)}`);
  }
}

export function createRequestConstraints(
  request: z.output<z.ZodObject<typeof constraintOptions>>,
  modifiableFields: readonly number[],
  { mlm }: Partial<AttackResources>,
): Constraint[] {
  const { protectedText, protect, maxLikelihoodDrop: drop } = request;
  const rate = request.maxModificationRate ?? 1;
  if (drop !== null && !mlm)
    throw new UserError("--max-likelihood-drop needs a masked language model. Pass --masked-lm MODEL.");
  const isProtected = protectedText.length > 0 || protect.length > 0;
  return [
    onlyFields(modifiableFields),
    ...(rate < 1 ? [maxModificationRate(rate, 0)] : []),
    ...(request.protectStopWords ? [protectStopWords] : []),
    ...(request.matchPartOfSpeech ? [samePartOfSpeech({ allowsNounVerb: false })] : []),
    ...(isProtected ? [protectSpans(protectedText, protect.map(parseExpression))] : []),
    ...(drop !== null ? [maxLikelihoodDrop(mlm!, drop)] : []),
  ];
}
