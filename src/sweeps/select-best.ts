import { stat } from "node:fs/promises";
import { join } from "node:path";
import { UserError } from "../errors.js";
import { mean } from "../evaluation/statistics.js";
import { type Results, readResults } from "../runs/results.js";
import { runFiles } from "../runs/run-folder.js";
import { isBetter } from "../train/evaluate.js";
import type { GridPoint, SweepCell } from "./expand.js";
import { getRunFolder, type SweepPlan } from "./plan.js";

/** The combination that a cell shows, and how many others could not be compared because a run of theirs has no results. */
export interface SelectedConfig {
  readonly point: GridPoint;
  /** In the order of the seeds. */
  readonly results: readonly Results[];
  readonly missing: number;
}

/** The best mean over the seeds of the selection split's metric; of equals the first. Null where no combination is complete. */
export async function selectBest(out: string, plan: SweepPlan, cell: SweepCell): Promise<SelectedConfig | null> {
  const { select } = plan.settings;
  let best: { choice: Omit<SelectedConfig, "missing">; value: number } | null = null;
  let missing = 0;
  for (const point of cell.points) {
    const results = await readPointResults(out, point);
    if (!results) {
      missing++;
      continue;
    }
    const value =
      select && cell.points.length > 1 ? mean(results.map((each) => getValidationMetric(each, select.metric))) : 0;
    if (!best || isBetter(select?.metric ?? "", value, best.value)) best = { choice: { point, results }, value };
  }
  return best && { ...best.choice, missing };
}

function getValidationMetric({ validation: selection, task }: Results, metric: string): number {
  if (!selection)
    throw new UserError(`select: the task ${task} has no split to select by: leave select out, or give it one`);
  const value = selection[metric];
  if (value === undefined)
    throw new UserError(`select.metric: expected one of ${Object.keys(selection).join(", ")}, received ${metric}`);
  return value;
}

/** What was read before, with the time of the file: a sweep that is followed asks for the same results again and again. */
const cachedResults = new Map<string, { readonly time: number; readonly results: Results }>();

async function readCachedResults(folder: string): Promise<Results | null> {
  const time = (await stat(join(folder, runFiles.results)).catch(() => null))?.mtimeMs;
  if (time === undefined) return null;
  const before = cachedResults.get(folder);
  if (before?.time === time) return before.results;
  const results = await readResults(folder);
  if (results) cachedResults.set(folder, { time, results });
  return results;
}

async function readPointResults(out: string, point: GridPoint): Promise<Results[] | null> {
  const all: Results[] = [];
  for (const run of point.runs) {
    const results = await readCachedResults(getRunFolder(out, run));
    if (!results) return null;
    all.push(results);
  }
  return all;
}
