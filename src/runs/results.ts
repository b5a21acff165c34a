import { z } from "zod";
import { operatingPointsSchema } from "../evaluation/operating-points.js";
import { sliceSchema } from "../evaluation/slices.js";
import { intervalSchema } from "../evaluation/statistics.js";
import { guardSummarySchema } from "../proofs/certificates/index.js";

const numbers = z.record(z.string(), z.number());

export const evaluationResultSchema = z.object({
  task: z.string(),
  split: z.string(),
  examples: z.number().int(),
  accuracy: z.number(),
  /** 95% Wilson interval of the accuracy. */
  interval: intervalSchema,
  /** `positiveLabel` was predicted from this probability on; null: the more probable label. */
  threshold: z.number().nullable().default(null),
  metrics: numbers,
  /** Rows are gold labels, columns predictions. */
  confusionMatrix: z.array(z.array(z.number())),
  /** The reason why the model is degenerate, so that its numbers do not count; null if it is not. */
  degeneracy: z.string().nullable().default(null),
  labels: z.array(z.string()),
  /** Texts with hidden text, which a language model reads and nobody sees. */
  hiddenTexts: z.int().min(0).default(0),
  /** The label of `f1`, the threshold and the curves; null if there are more than two labels and none was named. */
  positiveLabel: z.string().nullable().default(null),
  /** The texts that the run flags at its calibrated threshold; missing if it was never calibrated. */
  guard: guardSummarySchema
    .extend({
      positiveLabel: z.string(),
      /** The promised false-positive rate; null if the threshold was not calibrated. */
      fpr: z.number().nullable(),
      /** Maximum words per window; null if complete texts are scored. */
      windows: z.int().nullable().default(null),
    })
    .optional(),
  /** The area under the ROC curve of `positiveLabel`; null if only one side has texts. */
  auc: z.number().nullable().default(null),
  /** The recall of `positiveLabel` by the largest false-positive rate that is allowed. */
  recallAtFpr: z.record(z.string(), z.number()).nullable().default(null),
  /** Recall and false-positive rate of `positiveLabel` at every threshold, with intervals. */
  operatingPoints: operatingPointsSchema.nullable().default(null),
  /** The flagged fraction of further benign texts, at the thresholds of `operatingPoints`. */
  benign: z
    .array(
      z.object({
        name: z.string(),
        examples: z.int(),
        /** The fraction of the texts that is flagged, by the false-positive rate of the threshold on the split. */
        falsePositiveRates: z.record(z.string(), z.number()),
        intervals: z.record(z.string(), intervalSchema),
      }),
    )
    .default([]),
  /** The texts by the values of a column, if one was named. */
  slices: z.array(sliceSchema).default([]),
  /**
   * The examples that were classified correctly, so that models can be compared example by example.
   */
  outcomes: z.object({
    examples: z.string(),
    /** One character per example: 1 correct, 0 incorrect. */
    correct: z.string().regex(/^[01]*$/),
  }),
});

/**
 * The result of a model on one split: accuracy with its 95% interval, other metrics and the confusion
 * matrix.
 *
 *     const { accuracy, interval }: EvaluationResult = await run.evaluate({ split: "validation" });
 */
export type EvaluationResult = z.output<typeof evaluationResultSchema>;

export const advglueResultSchema = z.object({
  task: z.literal("advglue"),
  part: z.string(),
  drop: z.number(),
  glue: evaluationResultSchema,
  advglue: evaluationResultSchema,
});
export type AdvglueResult = z.output<typeof advglueResultSchema>;

export const resultsSchema = z.object({
  format: z.literal(3),
  model: z.string(),
  task: z.string(),
  methods: z.array(z.object({ name: z.string(), options: z.record(z.string(), z.unknown()) })),
  seed: z.number(),
  steps: z.number(),
  /** The step whose weights were kept. */
  bestStep: z.number(),
  trainExamples: z.number(),
  validation: numbers.nullable(),
  /** The reason why the model was degenerate on the validation split; null if it was not. */
  validationDegeneracy: z.string().nullable().default(null),
  /** The metrics of methods whose lower values are better. */
  lowerIsBetter: z.array(z.string()).default([]),
  /** Signs in the training losses that the numbers are misleading. */
  warnings: z.array(z.string()).default([]),
  test: evaluationResultSchema,
});

/** Says that the exact evaluation of a sweep is done. Its numbers are read from the proof. */
export const exactResultSchema = z.object({
  /** The name of the proof; undefined in results of earlier versions. */
  proof: z.string().optional(),
});

/**
 * The results of a finished run.
 *
 *     const results: Results | null = await run.results();
 */
export type Results = z.output<typeof resultsSchema>;
