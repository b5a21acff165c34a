import { join } from "node:path";
import { z } from "zod";
import { UserError } from "../errors.js";
import { createFolder, exists, writeFileAtomic } from "../files.js";
import { runConfigSchema } from "../runs/config.js";
import { planRun } from "../runs/run-files.js";
import { readJsonIfExists } from "../validate.js";
import { expandSweep } from "./expand.js";
import type { SweepFile } from "./read-sweep.js";
import { sweepSettingsSchema } from "./schema.js";

const pointSchema = z.object({
  values: z.record(z.string(), z.unknown()),
  /** Names of runs, in the order of the seeds. */
  runs: z.array(z.string()),
});
const cellSchema = z.object({ row: z.string(), column: z.string(), points: z.array(pointSchema) });
const namedListSchema = z.array(z.object({ id: z.string(), title: z.string() }));

/** sweep.json: a sweep with every run resolved. Only the run folders say what is done. */
const sweepPlanSchema = z.object({
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

/** The files of a sweep folder. */
export const sweepFiles = {
  plan: "sweep.json",
  runs: "runs",
  lock: "sweep.lock",
  slurm: "slurm",
  table: "table",
  report: "report.html",
} as const;

/** Plans a sweep: every run of it, checked. */
export async function createSweepPlan(sweep: SweepFile): Promise<SweepPlan> {
  const { name, profile, settings } = sweep;
  // The configs were checked one by one.
  const { runs, ...rest } = await expandSweep(sweep);
  const plan = { format: 2, name, profile, settings, ...rest };
  return { ...sweepPlanSchema.omit({ runs: true }).parse(plan), runs };
}

export function getRunFolder(out: string, name: string): string {
  return join(out, sweepFiles.runs, name);
}

/** Rejects a folder that already contains a sweep, unless it is to be resumed. */
export async function checkSweepFolder(out: string, resume: boolean): Promise<void> {
  if (!resume && (await exists(join(out, sweepFiles.plan))))
    throw new UserError(`${out} already contains a sweep. Pass --resume to continue it, or choose a different --out.`);
}

/** Writes the plan and the config of each run. A run that has started keeps its config. */
export async function writeSweepPlan(out: string, plan: SweepPlan): Promise<void> {
  createFolder(out);
  for (const [name, config] of Object.entries(plan.runs)) await planRun(getRunFolder(out, name), config);
  await writeFileAtomic(join(out, sweepFiles.plan), `${JSON.stringify(plan)}\n`);
}

/** The plan of a sweep folder; null if the folder is not a sweep. */
export async function readSweepPlan(out: string): Promise<SweepPlan | null> {
  return readJsonIfExists(join(out, sweepFiles.plan), sweepPlanSchema, "the sweep's plan");
}
