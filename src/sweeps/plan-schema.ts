import { z } from "zod";
import { runConfigSchema } from "../runs/config.js";
import { sweepSettingsSchema } from "./schema.js";

const pointSchema = z.object({
  values: z.record(z.string(), z.unknown()),
  /** Names of runs, in the order of the seeds. */
  runs: z.array(z.string()),
});

const cellSchema = z.object({ row: z.string(), column: z.string(), points: z.array(pointSchema) });

const namedListSchema = z.array(z.object({ id: z.string(), title: z.string() }));

/** sweep.json: a sweep with every run resolved. Only the run folders say what is done. */
export const sweepPlanSchema = z.object({
  format: z.literal(2),
  name: z.string(),
  profile: z.string().nullable(),
  settings: z.object(
    sweepSettingsSchema.omit({ rows: true, columns: true, grid: true, metrics: true, slurm: true }).shape,
  ),
  rows: namedListSchema,
  columns: namedListSchema,
  metrics: z.array(z.string()),
  cells: z.array(cellSchema),
  /** Every run once, by its name. Two cells may share runs. */
  runs: z.record(z.string(), runConfigSchema),
});

export type SweepPlan = z.output<typeof sweepPlanSchema>;

/** One combination of a grid's values, with one run per seed. */
export type GridPoint = z.output<typeof pointSchema>;

/** One row in one column: the combinations to select from, or the only one. */
export type SweepCell = z.output<typeof cellSchema>;
