import { z } from "zod";
import { intervalSchema, mean, wilsonInterval } from "./statistics.js";

const number = z.number();

/** The number of valid texts among those that fooled a model. */
export const attackValiditySchema = z.object({
  /** The sentence encoder that measured the similarity. */
  encoder: z.string(),
  /** A text is valid if its similarity to the original is at least this. */
  threshold: number,
  /** Texts that fooled the model. */
  successes: number,
  /** Those of them that are valid. */
  valid: number,
  /** Fraction of all examples that stay correct under the valid texts only. */
  accuracyUnderAttack: number,
  interval: intervalSchema,
  /** Mean similarity of the texts that fooled the model; null if there are none. */
  meanSimilarity: number.nullable(),
  /** Time of the encoder. */
  seconds: number,
});
export type Validity = z.output<typeof attackValiditySchema>;

/** Counts an example as fooled only if its text is valid. `failed` of `total` examples were not fooled at all. */
export function summarizeValidity(
  similarities: readonly number[],
  threshold: number,
  failed: number,
  total: number,
): Omit<Validity, "encoder" | "seconds"> {
  const valid = similarities.filter((similarity) => similarity >= threshold).length;
  const correct = failed + similarities.length - valid;
  return {
    threshold,
    successes: similarities.length,
    valid,
    accuracyUnderAttack: total === 0 ? 0 : correct / total,
    interval: wilsonInterval(correct, total),
    meanSimilarity: similarities.length > 0 ? mean(similarities) : null,
  };
}
