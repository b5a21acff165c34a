import { z } from "zod";
import { sweepSettingsSchema } from "./schema.js";

const pointSchema = z.object({
  values: z.record(z.string(), z.unknown()),
  /** Names of runs, in the order of the seeds. */
  runs: z.array(z.string()),
});

const cellSchema = z.object({ row: z.string(), column: z.string(), points: z.array(pointSchema) });

const namedListSchema = z.array(z.object({ id: z.string(), title: z.string() }));

/** sweep.json: a sweep with the names of its runs. Only the run folders say what is done. */
export const sweepPlanSchema = z.object({
  format: z.literal(3),
  name: z.string(),
  profile: z.string().nullable(),
  settings: z.object(
    sweepSettingsSchema.omit({ stages: true, rows: true, columns: true, grid: true, metrics: true, slurm: true }).shape,
  ),
  rows: namedListSchema,
  columns: namedListSchema,
  metrics: z.array(z.string()),
  cells: z.array(cellSchema),
  /** The name of every run once. Two cells may share runs. The config of a run is in its folder. */
  runs: z.array(z.string()),
  /** The run of each stage. */
  stages: z.record(z.string(), z.string()).default({}),
  /** Run -> the run of a stage whose model it starts from. */
  startsFrom: z.record(z.string(), z.string()).default({}),
});

export type SweepPlan = z.output<typeof sweepPlanSchema>;

/** One combination of a grid's values, with one run per seed. */
export type GridPoint = z.output<typeof pointSchema>;

/** One row in one column: the combinations to select from, or the only one. */
export type SweepCell = z.output<typeof cellSchema>;
