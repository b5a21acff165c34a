import type { CompareRequest } from "../actions/compare.js";
import { UserError } from "../base/errors.js";
import { groupRuns } from "../report/groups.js";
import { RunFolder } from "../runs/run-folder.js";
import { selectBest } from "./collect-results.js";
import { getRunFolder, readSweepPlan } from "./plan.js";
import { listBaselines, type SweepPlan } from "./schema.js";

export interface ComparedModels {
  /** The column of a sweep or the task of the runs; null for runs that were named one by one. */
  readonly title: string | null;
  readonly runs: CompareRequest["runs"];
}

export async function findComparedModels(
  folders: readonly string[],
  column: string | undefined,
): Promise<ComparedModels[]> {
  const [only, ...others] = folders;
  if (only !== undefined && others.length === 0) return findInFolder(only, column);
  const runs: CompareRequest["runs"] = [];
  let hasSweep = false;
  for (const folder of folders) {
    const plan = await readSweepPlan(folder);
    if (!plan) {
      runs.push(folder);
      continue;
    }
    hasSweep = true;
    const columns = pickColumns(folder, plan, column);
    if (columns.length > 1)
      throw new UserError(
        `${folder} has ${columns.length} columns (${columns.map(({ id }) => id).join(", ")}). Name one with --column.`,
      );
    runs.push(...(await listRows(folder, plan, columns[0]!.id)));
  }
  if (column !== undefined && !hasSweep)
    throw new UserError(`--column ${column}: none of the folders is a sweep. Omit the option.`);
  return [{ title: null, runs }];
}

async function findInFolder(folder: string, column: string | undefined): Promise<ComparedModels[]> {
  const plan = await readSweepPlan(folder);
  if (plan) {
    const found: ComparedModels[] = [];
    for (const { id, title } of pickColumns(folder, plan, column))
      found.push({ title, runs: await listRows(folder, plan, id) });
    return found;
  }
  // A single run is an error that `compare` explains.
  if (await RunFolder.containing(folder)) return [{ title: null, runs: [folder] }];
  const tasks = groupRuns(await RunFolder.findFinished(folder));
  const list = tasks.map(({ task, groups }) => `${task} (${groups.map(({ name }) => name).join(", ")})`).join(", ");
  const named = tasks.filter(({ task }) => column === undefined || task === column);
  if (tasks.length > 0 && named.length === 0)
    throw new UserError(`--column ${column}: the runs in ${folder} have the tasks ${list}. Name one of them.`);
  // A task with one method has nothing to compare.
  const found = named.filter(({ groups }) => groups.length > 1);
  if (found.length === 0)
    throw new UserError(
      `${folder}: expected finished runs of two or more methods on one task, received ${list}. Name the runs to compare.`,
    );
  return found.map(({ task, groups, baseline }) => ({
    title: task,
    runs: [baseline, ...groups.filter((group) => group !== baseline)].map(({ name, runs }) => ({
      name,
      folders: runs.map(({ run }) => run.folder),
    })),
  }));
}

function pickColumns(folder: string, plan: SweepPlan, column: string | undefined): SweepPlan["columns"] {
  const columns = plan.columns.filter(({ id }) => column === undefined || id === column);
  if (columns.length > 0) return columns;
  throw new UserError(
    `--column ${column}: ${folder} has the columns ${plan.columns.map(({ id }) => id).join(", ")}. Name one of them.`,
  );
}

async function listRows(folder: string, plan: SweepPlan, column: string): Promise<CompareRequest["runs"]> {
  const [baseline] = listBaselines(plan.settings);
  const rows: CompareRequest["runs"] = [];
  for (const { id } of plan.rows.toSorted((a, b) => Number(b.id === baseline) - Number(a.id === baseline))) {
    const cell = plan.cells.find((each) => each.row === id && each.column === column);
    const selected = cell && (await selectBest(folder, plan, cell));
    if (selected) rows.push({ name: id, folders: selected.point.runs.map((run) => getRunFolder(folder, run)) });
  }
  return rows;
}
