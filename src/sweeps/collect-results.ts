import { stat } from "node:fs/promises";
import { UserError } from "../base/errors.js";
import { isBetter } from "../evaluation/metric-table.js";
import { mean } from "../evaluation/statistics.js";
import type { Results } from "../runs/results.js";
import { getRunPath } from "../runs/run-files.js";
import { RunFolder, readResults } from "../runs/run-folder.js";
import { readDegeneracy, readMetrics } from "../runs/run-metrics.js";
import { type ColumnRow, compareColumn } from "./compare-column.js";
import { getRunFolder } from "./plan.js";
import { type GridPoint, listBaselines, type SweepCell, type SweepPlan } from "./schema.js";
import {
  addSeedTests,
  addSignificanceTests,
  averageCells,
  getMetric,
  type ResultsTable,
  type TableCell,
  type TableRow,
} from "./table.js";

/**
 * Selects the combination with the best mean validation metric, the first of equal ones. A
 * degenerate model is selected only if all are. Null if no combination is complete.
 */
export async function selectBest(
  out: string,
  plan: SweepPlan,
  cell: SweepCell,
): Promise<{
  readonly point: GridPoint;
  /** Other combinations that could not be compared because a run has no results. */
  readonly missing: number;
} | null> {
  const { select } = plan.settings;
  let best: { point: GridPoint; value: number; isSound: boolean } | null = null;
  let missing = 0;
  for (const point of cell.points) {
    const results = await readPointResults(out, point);
    if (!results) {
      missing++;
      continue;
    }
    const value =
      select && cell.points.length > 1 ? mean(results.map((each) => getValidationMetric(each, select.metric))) : 0;
    const isLowerBetter = results.some(({ lowerIsBetter }) => lowerIsBetter.includes(select?.metric ?? ""));
    const isSound = results.every(({ validationDegeneracy }) => validationDegeneracy === null);
    const isBest =
      best?.isSound === isSound
        ? isBetter(select?.metric ?? "", value, best.value, isLowerBetter ? "lower" : undefined)
        : isSound;
    if (!best || isBest) best = { point, value, isSound };
  }
  return best && { point: best.point, missing };
}

function getValidationMetric({ validation, task }: Results, metric: string): number {
  if (!validation)
    throw new UserError(`select: the task ${task} has no validation split. Remove select, or add a validation split.`);
  const value = validation[metric];
  if (value === undefined)
    throw new UserError(`select.metric: expected one of ${Object.keys(validation).join(", ")}, received ${metric}.`);
  return value;
}

/** Results by folder with the time of their file: a sweep reads them again and again. */
const cachedResults = new Map<string, { readonly time: number; readonly results: Results }>();

async function readCachedResults(folder: string): Promise<Results | null> {
  const time = (await stat(getRunPath(folder, "results")).catch(() => null))?.mtimeMs;
  if (time === undefined) return null;
  const cached = cachedResults.get(folder);
  if (cached?.time === time) return cached.results;
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

export async function collectResults(out: string, plan: SweepPlan): Promise<ResultsTable> {
  const { settings, metrics } = plan;
  const baselines = listBaselines(settings);
  const [baseline = null] = baselines;
  const isTestedOverSeeds = settings.significance === "seeds";
  const notes: string[] = [];
  const cellsByRow = new Map(plan.rows.map(({ id }) => [id, {} as Record<string, TableCell>]));
  const selectedByRow = new Map(plan.rows.map(({ id }) => [id, {} as Record<string, GridPoint["values"]>]));
  for (const column of plan.columns) {
    const measured: ColumnRow[] = [];
    for (const cell of plan.cells.filter((each) => each.column === column.id)) {
      const point = await findShownPoint(out, plan, cell, notes);
      if (!point) continue;
      if (Object.keys(point.values).length > 0) selectedByRow.get(cell.row)![column.id] = point.values;
      measured.push(await readColumnRow(out, cell.row, point));
    }
    for (const [row, cells] of compareColumn(measured, isTestedOverSeeds ? null : baseline, notes))
      for (const [metric, cell] of cells) cellsByRow.get(row)![`${column.id}/${metric}`] = cell;
  }
  const rows = plan.rows.map(({ id, title }): TableRow => {
    const cells = cellsByRow.get(id)!;
    const shown = Object.entries(cells).filter(([key]) => metrics.includes(getMetric(key)));
    const all = { ...Object.fromEntries(shown), ...computeAverages(plan, cells) };
    return { id, title, cells: all, selected: selectedByRow.get(id)! };
  });
  const averageMetrics = settings.evaluation.advglue ? ["mean", "drop"] : ["mean"];
  const averages = Object.keys(settings.averages).map((id) => ({ id, title: id, metrics: averageMetrics }));
  const columns = [...plan.columns.map((column) => ({ ...column, metrics })), ...averages];
  return {
    format: 2,
    name: plan.name,
    title: settings.title,
    profile: plan.profile,
    publishedTable: settings.publishedTable,
    baselines: isTestedOverSeeds ? baselines : baselines.slice(0, 1),
    significance: settings.significance,
    seeds: settings.seeds,
    columns,
    rows: isTestedOverSeeds ? addSeedTests(rows, baselines) : addSignificanceTests(rows, baseline),
    notes,
  };
}

async function readColumnRow(out: string, row: string, point: GridPoint): Promise<ColumnRow> {
  const seeds = point.runs.map(async (name) => {
    const run = await RunFolder.open(getRunFolder(out, name));
    return { seed: run.config.seed, metrics: await readMetrics(run), degeneracy: await readDegeneracy(run) };
  });
  return { row, seeds: await Promise.all(seeds) };
}

export async function listSelectedFolders(out: string, plan: SweepPlan): Promise<string[]> {
  const runs: string[] = [];
  for (const cell of plan.cells) runs.push(...((await selectBest(out, plan, cell))?.point.runs ?? []));
  return [...new Set(runs)].map((run) => getRunFolder(out, run));
}

async function findShownPoint(
  out: string,
  plan: SweepPlan,
  cell: SweepCell,
  notes: string[],
): Promise<GridPoint | null> {
  const selected = await selectBest(out, plan, cell);
  const name = `${cell.row}, ${cell.column}`;
  if (!selected) notes.push(`${name}: no results yet`);
  else if (selected.missing > 0)
    notes.push(
      `${name}: selected without ${selected.missing} of ${cell.points.length} combinations, ` +
        "because their runs have no results",
    );
  return selected?.point ?? null;
}

/** The averages of ROSE's tables: over accuracies, and over drops from GLUE to AdvGLUE. */
function computeAverages(
  { settings, metrics }: SweepPlan,
  cells: Readonly<Record<string, TableCell>>,
): Record<string, TableCell> {
  const averages: Record<string, TableCell> = {};
  const accuracies = metrics.filter((metric) => metric !== "drop");
  for (const [name, columns] of Object.entries(settings.averages)) {
    const average = (list: readonly string[]): TableCell | null =>
      averageCells(columns.flatMap((column) => list.map((metric) => cells[`${column}/${metric}`])));
    const all = average(accuracies);
    const drop = settings.evaluation.advglue ? average(["drop"]) : null;
    if (all) averages[`${name}/mean`] = all;
    if (drop) averages[`${name}/drop`] = drop;
  }
  return averages;
}
