import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import { z } from "zod";
import { UserError } from "../errors.js";
import { createFileError, exists, readJson, writeFileAtomic } from "../files.js";
import { type RunConfig, runConfigSchema } from "../runs/config.js";
import { runFiles } from "../runs/run-folder.js";
import { validate } from "../validate.js";
import { expandSweep } from "./expand.js";
import type { SweepFile } from "./read-sweep.js";
import { sweepSettingsSchema } from "./schema.js";

const namedListSchema = z.array(z.object({ id: z.string(), title: z.string() }));

/** sweep.json: all that a sweep is, resolved. What is done stands in the run folders alone. */
const sweepPlanSchema = z.object({
  format: z.literal(1),
  name: z.string(),
  profile: z.string().nullable(),
  settings: z.object(
    sweepSettingsSchema.omit({ rows: true, columns: true, grid: true, metrics: true, slurm: true }).shape,
  ),
  rows: namedListSchema,
  columns: namedListSchema,
  measures: z.array(z.string()),
  cells: z.array(
    z.object({
      row: z.string(),
      column: z.string(),
      points: z.array(z.object({ values: z.record(z.string(), z.unknown()), runs: z.array(z.string()) })),
    }),
  ),
  runs: z.record(z.string(), runConfigSchema),
});
export type SweepPlan = z.output<typeof sweepPlanSchema>;

/** The files of a sweep's folder. */
export const sweepFiles = {
  plan: "sweep.json",
  runs: "runs",
  lock: "sweep.lock",
  slurm: "slurm",
  table: "table",
  report: "report.html",
} as const;

/** The plan of a sweep: every run of it, checked. */
export function createSweepPlan(sweep: SweepFile): SweepPlan {
  const { cells, runs, rows, columns, measures } = expandSweep(sweep);
  const { name, profile, settings } = sweep;
  return sweepPlanSchema.parse({
    format: 1,
    name,
    profile,
    settings,
    rows,
    columns,
    measures,
    cells,
    runs: Object.fromEntries(runs),
  });
}

export function getRunFolder(out: string, name: string): string {
  return join(out, sweepFiles.runs, name);
}

/** Writes the plan, and into each run's folder the config that `temper train --resume --out FOLDER` reads. */
export async function writeSweepPlan(out: string, plan: SweepPlan, resume: boolean): Promise<void> {
  const path = join(out, sweepFiles.plan);
  if (!resume && (await exists(path)))
    throw new UserError(`${out} holds a sweep already: give --resume to go on with it, or another --out`);
  try {
    await mkdir(out, { recursive: true });
  } catch (error) {
    throw createFileError(error, out, "make the folder");
  }
  for (const [name, config] of Object.entries(plan.runs)) await writeRunConfig(getRunFolder(out, name), config);
  await writeFileAtomic(path, `${JSON.stringify(plan)}\n`);
}

/** A run that began keeps the config it began with: its hash says that they are the same. */
async function writeRunConfig(folder: string, config: RunConfig): Promise<void> {
  const path = join(folder, runFiles.config);
  if (await exists(path)) return;
  try {
    await mkdir(folder, { recursive: true });
  } catch (error) {
    throw createFileError(error, folder, "make the folder");
  }
  await writeFileAtomic(path, stringify(config));
}

/** The plan of a sweep's folder; null where it is none. */
export async function readSweepPlan(out: string): Promise<SweepPlan | null> {
  const path = join(out, sweepFiles.plan);
  return (await exists(path)) ? validate(sweepPlanSchema, await readJson(path, "the sweep's plan"), path) : null;
}
