import { z } from "zod";
import type { Callbacks } from "../../base/events.js";
import { countSchema, orNull } from "../../base/validate.js";
import { maxSubstitutions } from "../../proofs/index.js";
import { dataOptions } from "../../settings/config.js";
import { runtimeOptions } from "../../settings/runtime-config.js";
import { attackRequestSchema, type RunParts } from "../attack/attack-request.js";

const { model, attacks, seed, split, numExamples, sampling, endpoint } = attackRequestSchema.shape;
const { substitutions, inVocabSubstitutes, caseSensitiveSubstitutes, sentenceEncoder } = attackRequestSchema.shape;
const { minContextSimilarity, precision, tokenization, maxLength } = attackRequestSchema.shape;

export const exactRequestSchema = z.strictObject({
  model,
  maxChanges: z.int().min(0).max(maxSubstitutions).default(2).describe("maximum number of substitutions per text"),
  attacks: attacks.describe(
    "attacks with substitutes of the table, which run first and are compared with the exact result",
  ),
  decidedMargin: orNull(z.number().min(0), "twice the largest measured error").describe(
    "logit margin below which texts in low precision are scored again in fp32",
  ),
  budget: orNull(countSchema, "no limit").describe("maximum number of texts to score per example"),
  seed,
  out: orNull(z.string(), "exact/ in the run folder").describe("folder of the proof"),
  ...dataOptions,
  split,
  numExamples,
  sampling,
  minContextSimilarity,
  substitutions,
  inVocabSubstitutes,
  caseSensitiveSubstitutes,
  sentenceEncoder,
  ...runtimeOptions,
  precision,
  tokenization,
  maxLength,
  endpoint,
});

/**
 * An exact evaluation as data.
 *
 *     const request: ExactRequest = { model: "runs/rose", maxChanges: 2, numExamples: 100 };
 */
export type ExactRequest = z.input<typeof exactRequestSchema>;
export type ParsedExactRequest = z.output<typeof exactRequestSchema>;

export interface ExactCallbacks extends Callbacks {
  /** Lets other processes prove texts. `folder` is for their files. */
  readonly runParts?: RunParts<ParsedExactRequest & { readonly out: string }> | undefined;
}
