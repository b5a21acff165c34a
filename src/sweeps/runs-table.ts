import { UserError } from "../errors.js";
import { groupRuns } from "../report/groups.js";
import { type ReportRun, readReportRuns } from "../report/read-run.js";
import { type MetricValue, readMetrics } from "./metrics.js";
import { addSignificanceTests, computeCell, type ResultsTable, type TableCell, type TableRow } from "./table.js";

/** The table of finished runs that belong to no sweep: a row a setting, a column a task, runs that differ in their seed together. */
export async function createRunsTable(folders: readonly string[]): Promise<ResultsTable> {
  const runs = await readReportRuns(folders);
  const unfinished = runs.filter(({ results }) => results === null);
  if (unfinished.length === runs.length)
    throw new UserError(
      `${folders.join(", ")}: expected a finished run, found none; finish one with temper train … --resume`,
    );
  const tasks = groupRuns(runs.filter(({ results }) => results !== null));
  const seeds = [
    ...new Set(
      tasks.flatMap(({ groups }) => groups.flatMap(({ runs: same }) => same.map(({ config }) => config.seed))),
    ),
  ].sort((a, b) => a - b);
  const rows = new Map<string, Record<string, TableCell>>();
  const measures = new Map<string, Set<string>>();
  for (const { task, groups } of tasks) {
    const shown = measures.get(task) ?? new Set(["accuracy"]);
    measures.set(task, shown);
    for (const { name, runs: same } of groups) {
      const cells = rows.get(name) ?? {};
      rows.set(name, cells);
      for (const [measure, cell] of await computeCells(same, seeds)) {
        cells[`${task}/${measure}`] = cell;
        if (isMeasuredAfterTraining(measure, same)) shown.add(measure);
      }
    }
  }
  const baseline = tasks[0]?.baseline.name ?? null;
  const all: TableRow[] = [...rows].map(([id, cells]) => ({ id, title: id, cells, chosen: {} }));
  return {
    format: 1,
    name: "runs",
    title: "Runs",
    profile: null,
    paper: null,
    baseline,
    seeds,
    columns: [...measures].map(([task, names]) => ({ id: task, title: task, measures: [...names] })),
    rows: addSignificanceTests(all, baseline),
    notes: unfinished.map(({ folder }) => `${folder}: not finished, left out`),
  };
}

/** Beside accuracy a table shows what was measured after training, not every metric of the report. */
function isMeasuredAfterTraining(measure: string, runs: readonly ReportRun[]): boolean {
  return measure !== "clean" && !runs.some(({ results }) => measure in (results?.test.metrics ?? {}));
}

async function computeCells(runs: readonly ReportRun[], seeds: readonly number[]): Promise<[string, TableCell][]> {
  const found = new Map<number, Map<string, MetricValue>>();
  for (const { folder, config, results } of runs)
    if (results) found.set(config.seed, await readMetrics(folder, results));
  const names = new Set([...found.values()].flatMap((each) => [...each.keys()]));
  return [...names].flatMap((name): [string, TableCell][] => {
    const cell = computeCell(seeds.map((seed) => found.get(seed)?.get(name) ?? null));
    return cell ? [[name, cell]] : [];
  });
}
