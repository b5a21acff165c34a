import { z } from "zod";
import type { PredictProbabilities } from "../../attacks/function-victim.js";
import type { Callbacks } from "../../base/events.js";
import { countSchema, orNull } from "../../base/validate.js";
import { maxSubstitutions } from "../../proofs/index.js";
import { attackGroups, attackRequestSchema } from "../attack/attack-request.js";

const { model, attacks, seed } = attackRequestSchema.shape;
const { data, sample, constraints, resources, runtime } = attackGroups;

/** What `exact` accepts. */
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
  data: data.prefault({}),
  sample: sample.omit({ attackedLabel: true }).prefault({}),
  constraints: constraints.pick({ minContextSimilarity: true }).prefault({}),
  resources: resources.omit({ lmConstraint: true, vectors: true, maskedLm: true }).prefault({}),
  runtime: runtime.omit({ concurrency: true, cache: true, noise: true, deletionRate: true, draws: true }).prefault({}),
});

/**
 * An exact evaluation as data.
 *
 *     const request: ExactRequest = { model: "runs/rose", maxChanges: 2, sample: { numExamples: 100 } };
 */
export type ExactRequest = z.input<typeof exactRequestSchema>;
/** The same for a model that is a function from texts to probabilities. */
export type FunctionExactRequest = Omit<ExactRequest, "model"> & { readonly model: PredictProbabilities };
export type ParsedExactRequest = z.output<typeof exactRequestSchema>;

/** What happens during an exact evaluation. */
export interface ExactCallbacks extends Callbacks {
  /** Lets other processes compute blocks. `folder` is for their files. */
  readonly runParts?: (
    request: ParsedExactRequest & { readonly out: string },
    folder: string,
    countOpen: () => Promise<number>,
  ) => Promise<void>;
  /** Called before the enumeration with the texts that an earlier call scored, and with all. */
  readonly onStart?: ((done: number, total: number) => void) | undefined;
}
