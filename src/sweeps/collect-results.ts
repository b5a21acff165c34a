import type { SweepCell } from "./expand.js";
import { type MetricValue, readMetrics } from "./metrics.js";
import { getRunFolder, type SweepPlan } from "./plan.js";
import { selectBest } from "./select-best.js";
import {
  addSignificanceTests,
  averageCells,
  computeCell,
  type ResultsTable,
  type TableCell,
  type TableRow,
} from "./table.js";

/** The measures of the columns that are means over others. */
const averageMetrics = { mean: "mean", drop: "drop" } as const;

/** Draws a sweep's table from its run folders; what is not finished is left out and said. */
export async function collectResults(out: string, plan: SweepPlan): Promise<ResultsTable> {
  const { settings, measures } = plan;
  const notes: string[] = [];
  const rows: TableRow[] = [];
  for (const { id, title } of plan.rows) {
    const cells: Record<string, TableCell> = {};
    const chosen: Record<string, Readonly<Record<string, unknown>>> = {};
    for (const cell of plan.cells.filter((each) => each.row === id)) {
      const found = await readCell(out, plan, cell, notes);
      if (Object.keys(found.values).length > 0) chosen[cell.column] = found.values;
      for (const [measure, value] of found.cells) cells[`${cell.column}/${measure}`] = value;
    }
    rows.push({ id, title, cells: { ...filterMetrics(cells, measures), ...computeAverages(plan, cells) }, chosen });
  }
  const averages = Object.keys(settings.averages).map((id) => ({ id, title: id, measures: listAverageNames(plan) }));
  return {
    format: 1,
    name: plan.name,
    title: settings.title,
    profile: plan.profile,
    paper: settings.publishedTable,
    baseline: settings.baseline,
    seeds: settings.seeds,
    columns: [...plan.columns.map((column) => ({ ...column, measures })), ...averages],
    rows: addSignificanceTests(rows, settings.baseline),
    notes,
  };
}

/** The folders of the runs that the table shows. */
export async function listSelectedFolders(out: string, plan: SweepPlan): Promise<string[]> {
  const runs: string[] = [];
  for (const cell of plan.cells) runs.push(...((await selectBest(out, plan, cell))?.point.runs ?? []));
  return [...new Set(runs)].map((run) => getRunFolder(out, run));
}

async function readCell(
  out: string,
  plan: SweepPlan,
  cell: SweepCell,
  notes: string[],
): Promise<{ values: Readonly<Record<string, unknown>>; cells: [string, TableCell][] }> {
  const choice = await selectBest(out, plan, cell);
  if (!choice) {
    notes.push(`${cell.row}, ${cell.column}: no results yet`);
    return { values: {}, cells: [] };
  }
  if (choice.missing > 0)
    notes.push(
      `${cell.row}, ${cell.column}: chosen without ${choice.missing} of ${cell.points.length} combinations, whose runs have no results`,
    );
  const measured: Map<string, MetricValue>[] = [];
  for (const [i, run] of choice.point.runs.entries())
    measured.push(await readMetrics(getRunFolder(out, run), choice.results[i]!));
  const names = new Set(measured.flatMap((each) => [...each.keys()]));
  const cells = [...names].flatMap((name): [string, TableCell][] => {
    const value = computeCell(measured.map((each) => each.get(name) ?? null));
    return value ? [[name, value]] : [];
  });
  return { values: choice.point.values, cells };
}

function filterMetrics(
  cells: Readonly<Record<string, TableCell>>,
  measures: readonly string[],
): Record<string, TableCell> {
  return Object.fromEntries(
    Object.entries(cells).filter(([key]) => measures.includes(key.slice(key.lastIndexOf("/") + 1))),
  );
}

/** ROSE's averages: over all accuracies of the columns, and over the drops from GLUE to AdvGLUE. */
function computeAverages(
  { settings, measures }: SweepPlan,
  cells: Readonly<Record<string, TableCell>>,
): Record<string, TableCell> {
  const found: Record<string, TableCell> = {};
  const accuracies = measures.filter((measure) => measure !== averageMetrics.drop);
  for (const [name, columns] of Object.entries(settings.averages)) {
    const over = (list: readonly string[]): TableCell | null =>
      averageCells(columns.flatMap((column) => list.map((measure) => cells[`${column}/${measure}`])));
    const [all, drop] = [over(accuracies), settings.evaluation.advglue ? over([averageMetrics.drop]) : null];
    if (all) found[`${name}/${averageMetrics.mean}`] = all;
    if (drop) found[`${name}/${averageMetrics.drop}`] = drop;
  }
  return found;
}

function listAverageNames({ settings }: SweepPlan): string[] {
  return [averageMetrics.mean, ...(settings.evaluation.advglue ? [averageMetrics.drop] : [])];
}
