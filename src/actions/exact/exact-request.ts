import { z } from "zod";
import { httpVictimSchema } from "../../attacks/endpoint.js";
import { maxSubstitutions } from "../../attacks/exact/proof-lines.js";
import type { PredictProbabilities } from "../../attacks/function-victim.js";
import type { Interval } from "../../evaluation/statistics.js";
import type { Callbacks } from "../../events.js";
import { dataOptions } from "../../runs/config.js";
import { countSchema, orNull } from "../../validate.js";
import { attackGroups, attackRequestSchema } from "../attack/attack-request.js";

const { model, seed } = attackRequestSchema.shape;
const { split, numExamples, sampling } = attackGroups.sample.shape;
const { substitutions, inVocabSubstitutes, caseSensitiveSubstitutes, sentenceEncoder } = attackGroups.resources.shape;
const { minContextSimilarity } = attackGroups.constraints.shape;
const { tokenization, maxLength, device, precision, threads } = attackGroups.runtime.shape;

/** What `exact` accepts. */
export const exactRequestSchema = z.strictObject({
  model,
  maxChanges: z.int().min(0).max(maxSubstitutions).default(2).describe("maximum number of substitutions per text"),
  attacks: attackRequestSchema.shape.attacks.describe(
    "attacks with substitutes of the table, which run first and are compared with the exact result",
  ),
  budget: orNull(countSchema).describe("maximum number of texts to score per example; null: no limit"),
  ...{ substitutions, inVocabSubstitutes, caseSensitiveSubstitutes, minContextSimilarity, sentenceEncoder },
  ...dataOptions,
  ...{ split, sampling, seed },
  numExamples: numExamples.describe("number of examples"),
  out: orNull(z.string()).describe("folder of the proof; null: exact/ in the run folder"),
  endpoint: httpVictimSchema.prefault({}),
  ...{ tokenization, maxLength, device, precision, threads },
});

/**
 * An exact evaluation as data.
 *
 *     const request: ExactRequest = { model: "runs/rose", maxChanges: 2, numExamples: 100 };
 */
export type ExactRequest = z.input<typeof exactRequestSchema>;
/** The same for a model that is a function from texts to probabilities. */
export type FunctionExactRequest = Omit<ExactRequest, "model"> & { readonly model: PredictProbabilities };
export type ParsedExactRequest = z.output<typeof exactRequestSchema>;

/** What happens during an exact evaluation. */
export interface ExactCallbacks extends Callbacks {
  /** Called before the enumeration with the texts that an earlier call scored, and with all. */
  readonly onStart?: ((done: number, total: number) => void) | undefined;
}

/** One text of an exact evaluation. */
export interface ExactText {
  /** Index in the sample. */
  readonly index: number;
  /** The example's ID. */
  readonly id: string;
  /**
   * The smallest known number of substitutions that fools the model; null if none is known. It is
   * the smallest possible one if `provenUpTo` is one less.
   */
  readonly minChanges: number | null;
  /** No set of at most this many substitutions fools the model; -1 for a misclassified text. */
  readonly provenUpTo: number;
  /** The text that fools the model; null if none is known. */
  readonly finalTexts: readonly string[] | null;
}

/** How far an attack is from the exact result. */
export interface AttackGap {
  readonly accuracyUnderAttack: number;
  /** The fraction of texts that the attack did not fool, although some substitutions do. */
  readonly gap: number;
  /** McNemar's exact p-value of the gap. */
  readonly p: number;
}

/**
 * Exact robust accuracy by number of substitutions.
 *
 *     const { exact: levels }: ExactReport = await exact({ model: "runs/rose", maxChanges: 2 });
 */
export interface ExactReport {
  readonly examples: number;
  /** Why the model is degenerate, so that no number counts; null if it is not. */
  readonly degeneracy: string | null;
  readonly exact: readonly {
    readonly changes: number;
    /** The fraction of texts of which it is proven that no set of at most so many substitutions fools. */
    readonly accuracy: number;
    readonly interval: Interval;
    /** Texts that the budget left open: neither fooled nor proven. */
    readonly open: number;
  }[];
  readonly texts: readonly ExactText[];
  /** What attacks reach with at most `maxChanges` substitutions, compared with the exact result. */
  readonly attacks: Readonly<Record<string, AttackGap>>;
  readonly task: string;
  readonly split: string;
  /** SHA-256 of the examples. */
  readonly data: string;
  /** Texts that the enumeration scored. */
  readonly scored: number;
  /** How many of them float32 scored again, because low precision could not decide them. */
  readonly repeated: number;
  /** Texts per second of this call; null if the proof was complete. */
  readonly textsPerSecond: number | null;
  /** Path of the proof, for `temper verify`. */
  readonly proof: string;
}
