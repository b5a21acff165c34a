import { join } from "node:path";
import { z } from "zod";
import { exists, readJson } from "../files.js";
import { validate } from "../validate.js";
import { runFiles } from "./run-folder.js";

const metricsSchema = z.record(z.string(), z.number());

/** A model's report on one split. */
export const evaluationResultSchema = z.object({
  split: z.string(),
  examples: z.number().int(),
  accuracy: z.number(),
  /** 95 % Wilson interval of the accuracy. */
  interval: z.tuple([z.number(), z.number()]),
  metrics: metricsSchema,
  /** Rows are gold labels, columns predictions. */
  confusionMatrix: z.array(z.array(z.number())),
  /** Which examples were right, so that another model can be compared example by example; not in results of older versions. */
  outcomes: z
    .object({
      /** SHA-256 of the examples. */
      examples: z.string(),
      /** One character an example, in their order: 1 right, 0 wrong. */
      correct: z.string().regex(/^[01]*$/),
    })
    .optional(),
});
export type EvaluationResult = z.output<typeof evaluationResultSchema>;

/** results.json: what a finished run found. Data first; tables and figures are drawn from it. */
export const resultsSchema = z.object({
  format: z.literal(1),
  model: z.string(),
  task: z.string(),
  methods: z.array(z.object({ name: z.string(), options: z.record(z.string(), z.unknown()) })),
  seed: z.number(),
  steps: z.number(),
  /** The step whose weights were kept. */
  bestStep: z.number(),
  trainExamples: z.number(),
  validation: metricsSchema.nullable(),
  test: evaluationResultSchema,
});
export type Results = z.output<typeof resultsSchema>;

/** The results of a run that has finished; null before. */
export async function readResults(folder: string): Promise<Results | null> {
  const path = join(folder, runFiles.results);
  return (await exists(path)) ? validate(resultsSchema, await readJson(path, "the run's results"), path) : null;
}
