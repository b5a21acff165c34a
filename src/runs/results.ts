import { join } from "node:path";
import { z } from "zod";
import { exists, readJson } from "../files.js";
import { validate } from "../validate.js";
import { runFiles } from "./folder.js";

const numbers = z.record(z.string(), z.number());

/** A model's report on one split. */
export const splitReportSchema = z.object({
  split: z.string(),
  examples: z.number().int(),
  accuracy: z.number(),
  /** 95 % Wilson interval of the accuracy. */
  interval: z.tuple([z.number(), z.number()]),
  metrics: numbers,
  /** Rows are gold labels, columns predictions. */
  confusion: z.array(z.array(z.number())),
  /** Which examples were right, so that another model can be compared example by example; not in results of older versions. */
  outcomes: z
    .object({
      /** SHA-256 of the examples. */
      examples: z.string(),
      /** One character an example, in their order: 1 right, 0 wrong. */
      right: z.string().regex(/^[01]*$/),
    })
    .optional(),
});
export type SplitReport = z.output<typeof splitReportSchema>;

/** results.json: what a finished run found. Data first; tables and figures are drawn from it. */
export const resultsSchema = z.object({
  format: z.literal(1),
  model: z.string(),
  task: z.string(),
  method: z.array(z.object({ name: z.string(), options: z.record(z.string(), z.unknown()) })),
  seed: z.number(),
  steps: z.number(),
  /** The step whose weights were kept. */
  chosenStep: z.number(),
  trainExamples: z.number(),
  selection: numbers.nullable(),
  report: splitReportSchema,
});
export type Results = z.output<typeof resultsSchema>;

/** The results of a run that has finished; null before. */
export async function readResults(folder: string): Promise<Results | null> {
  const path = join(folder, runFiles.results);
  return (await exists(path)) ? validate(resultsSchema, await readJson(path, "the run's results"), path) : null;
}
