import { join, resolve } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import { createFolder, exists, writeFileAtomic } from "../base/files.js";
import { readJsonIfExists } from "../base/read-json.js";
import { flattenFormerGroups } from "../runs/attack-folder.js";
import { getRunPath } from "../runs/run-files.js";
import { planRun } from "../runs/run-folder.js";
import type { RunConfig } from "../settings/config.js";
import { readConfigFile } from "../settings/read-config.js";
import { expandSweep } from "./expand.js";
import type { SweepFile } from "./read-sweep.js";
import { type SweepPlan, sweepPlanSchema } from "./schema.js";
import { parseStageModel } from "./stages.js";

export const sweepFiles = {
  plan: "sweep.json",
  runs: "runs",
  lock: "sweep.lock",
  slurm: "slurm",
  table: "table.md",
  tableData: "table.json",
  report: "report.html",
} as const;

export interface NewSweepPlan {
  readonly plan: SweepPlan;
  readonly configs: Readonly<Record<string, RunConfig>>;
}

export async function createSweepPlan(sweep: SweepFile): Promise<NewSweepPlan> {
  const { name, profile, settings } = sweep;
  const { configs, ...rest } = await expandSweep(sweep);
  const startsFrom = Object.entries(configs).flatMap(([run, { model }]) => {
    const stageRun = parseStageModel(model);
    return stageRun === null ? [] : [[run, stageRun] as const];
  });
  const runs = Object.keys(configs);
  const plan = { format: 3, name, profile, settings, ...rest, runs, startsFrom: Object.fromEntries(startsFrom) };
  return { plan: sweepPlanSchema.parse(plan), configs };
}

export function getRunFolder(out: string, name: string): string {
  return join(out, sweepFiles.runs, name);
}

export async function checkSweepFolder(out: string, resume: boolean): Promise<void> {
  if (!resume && (await exists(join(out, sweepFiles.plan))))
    throw new UserError(`${out} already contains a sweep. Pass --resume to continue it, or choose a different --out.`);
}

export async function writeSweepPlan(out: string, { plan, configs }: NewSweepPlan): Promise<void> {
  createFolder(out);
  for (const [name, config] of Object.entries(configs))
    await planRun(getRunFolder(out, name), resolveStageModel(out, config));
  await writeFileAtomic(join(out, sweepFiles.plan), `${JSON.stringify(plan)}\n`);
}

function resolveStageModel(out: string, config: RunConfig): RunConfig {
  const run = parseStageModel(config.model);
  return run === null ? config : { ...config, model: resolve(getRunPath(getRunFolder(out, run), "model")) };
}

export function readPlannedConfig(out: string, name: string): Promise<RunConfig> {
  return readConfigFile(getRunPath(getRunFolder(out, name), "config"));
}

const storedOptions = z.looseObject({}).transform(flattenFormerGroups);
const storedEvaluation = z.looseObject({
  options: storedOptions.optional(),
  columns: z.record(z.string(), storedOptions).optional(),
});
/** Plans of earlier versions have the options of attacks in groups. */
const storedPlan = z.looseObject({ settings: z.looseObject({ evaluation: storedEvaluation.optional() }) });
const storedPlanSchema = z.preprocess((stored) => storedPlan.safeParse(stored).data ?? stored, sweepPlanSchema);

/** The plan of a sweep folder; null if the folder is not a sweep. */
export async function readSweepPlan(out: string): Promise<SweepPlan | null> {
  return readJsonIfExists(join(out, sweepFiles.plan), storedPlanSchema, "the sweep's plan");
}

export function usesOnlyCpu(configs: NewSweepPlan["configs"]): boolean {
  return Object.values(configs).every(({ device }) => device === "cpu");
}
