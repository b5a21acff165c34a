import { z } from "zod";
import { attackRequestSchema } from "../actions/attack/attack-request.js";
import { evaluateRequestSchema } from "../actions/evaluate.js";
import { attackSpecSchema } from "../attacks/load-attack.js";
import { countSchema, orNull, seedSchema } from "../base/validate.js";
import { maxSubstitutions } from "../proofs/index.js";
import { dataOptions } from "../settings/config.js";
import { runtimeOptions } from "../settings/runtime-config.js";

const { substitutions, minContextSimilarity, endpoint, model } = attackRequestSchema.shape;
const { slices } = evaluateRequestSchema.shape;

export const auditRequestSchema = z.strictObject({
  model: model.describe("a run folder, a model folder, npm:PACKAGE, a Hugging Face model ID, or a URL"),
  ...dataOptions,
  trainData: orNull(z.string()).describe(
    "file of the training texts: finds leaks, label errors and words that alone decide a label",
  ),
  slices,
  positiveLabel: orNull(z.string(), "none").describe("the label that a guard flags; it is then attacked as a guard"),
  minutes: z.number().positive().default(10).describe("time limit; the plan is made for it, and printed first"),
  attacks: orNull(z.array(attackSpecSchema), "auto and charmer, and guard with --positive-label").describe("attacks"),
  numExamples: orNull(countSchema, "as many as the time allows").describe("number of texts to attack"),
  queryBudget: orNull(countSchema, "as many as the time allows").describe("maximum queries per text and attack"),
  maxChanges: orNull(z.int().min(0).max(maxSubstitutions), "2, or what fits").describe(
    "substitutions per text of the exact evaluation; 0: none",
  ),
  substitutions,
  minContextSimilarity,
  seed: seedSchema.default(0).describe("random seed of the samples and the attacks"),
  out: z.string().min(1).default("audit").describe("folder of audit.html, audit.json and the journals"),
  ...runtimeOptions,
  endpoint,
});

/**
 * A model to audit, the texts, and the time.
 *
 *     const request: AuditRequest = { model: "runs/spam", data: "test.csv", minutes: 10 };
 */
export type AuditRequest = z.input<typeof auditRequestSchema>;
export type ParsedAuditRequest = z.output<typeof auditRequestSchema>;
