import { stat } from "node:fs/promises";
import { join } from "node:path";
import { UserError } from "../errors.js";
import { mean } from "../evaluation/statistics.js";
import { runFiles } from "../runs/folder.js";
import { type Results, readResults } from "../runs/results.js";
import { isBetter } from "../train/evaluate.js";
import type { Cell, Point } from "./expand.js";
import { type Plan, runFolder } from "./plan.js";

/** The combination that a cell shows, and how many others could not be compared because a run of theirs has no results. */
export interface Choice {
  readonly point: Point;
  /** In the order of the seeds. */
  readonly results: readonly Results[];
  readonly missing: number;
}

/** The best mean over the seeds of the selection split's metric; of equals the first. Null where no combination is complete. */
export async function choose(out: string, plan: Plan, cell: Cell): Promise<Choice | null> {
  const { select } = plan.settings;
  let best: { choice: Omit<Choice, "missing">; value: number } | null = null;
  let missing = 0;
  for (const point of cell.points) {
    const results = await resultsOf(out, point);
    if (!results) {
      missing++;
      continue;
    }
    const value = select && cell.points.length > 1 ? mean(results.map((each) => selectionOf(each, select.metric))) : 0;
    if (!best || isBetter(select?.metric ?? "", value, best.value)) best = { choice: { point, results }, value };
  }
  return best && { ...best.choice, missing };
}

function selectionOf({ selection, task }: Results, metric: string): number {
  if (!selection) throw new UserError(`select: the task ${task} has no split to select by: leave select out, or give it one`);
  const value = selection[metric];
  if (value === undefined) throw new UserError(`select.metric: expected one of ${Object.keys(selection).join(", ")}, received ${metric}`);
  return value;
}

/** What was read before, with the time of the file: a sweep that is followed asks for the same results again and again. */
const known = new Map<string, { readonly time: number; readonly results: Results }>();

async function readFinished(folder: string): Promise<Results | null> {
  const time = (await stat(join(folder, runFiles.results)).catch(() => null))?.mtimeMs;
  if (time === undefined) return null;
  const before = known.get(folder);
  if (before?.time === time) return before.results;
  const results = await readResults(folder);
  if (results) known.set(folder, { time, results });
  return results;
}

async function resultsOf(out: string, point: Point): Promise<Results[] | null> {
  const all: Results[] = [];
  for (const run of point.runs) {
    const results = await readFinished(runFolder(out, run));
    if (!results) return null;
    all.push(results);
  }
  return all;
}
