import { z } from "zod";
import { UserError } from "../base/errors.js";
import { validate } from "../base/validate.js";
import { groupRuns } from "../report/groups.js";
import { type FinishedRun, RunFolder } from "../runs/run-folder.js";
import { readDegeneracy, readMetrics } from "../runs/run-metrics.js";
import { collectResults } from "./collect-results.js";
import { type ColumnRow, compareColumn } from "./compare-column.js";
import { readSweepPlan } from "./plan.js";
import { type PublishedTable, readPublishedTable } from "./render-table.js";
import { addSignificanceTests, type ResultsTable, type TableCell, type TableRow } from "./table.js";

const tableRequestSchema = z.strictObject({
  folders: z.array(z.string()).min(1).describe("sweep folders, run folders, or folders of runs"),
  paper: z.boolean().default(false).describe("add the published numbers, with their confidence intervals"),
});

/**
 * Reads one table per sweep, and one of all other runs.
 *
 *     const [first] = await table({ folders: ["runs/rose-table-1"] });
 */
export async function table(
  request: z.input<typeof tableRequestSchema>,
): Promise<{ readonly table: ResultsTable; readonly published: PublishedTable | null }[]> {
  const { folders, paper } = validate(tableRequestSchema, request, "table");
  return Promise.all(
    (await readTables(folders)).map(async (table) => ({
      table,
      published: paper ? await readPublishedNumbers(table) : null,
    })),
  );
}

async function readTables(folders: readonly string[]): Promise<ResultsTable[]> {
  const tables: ResultsTable[] = [];
  const others: string[] = [];
  for (const folder of folders) {
    const plan = await readSweepPlan(folder);
    if (plan) tables.push(await collectResults(folder, plan));
    else others.push(folder);
  }
  return others.length > 0 ? [...tables, await createRunsTable(others)] : tables;
}

function readPublishedNumbers({ publishedTable, title }: ResultsTable): Promise<PublishedTable> {
  if (publishedTable !== null) return readPublishedTable(publishedTable);
  throw new UserError(`--paper: ${title} has no published table. Set publishedTable in the sweep file.`);
}

/** The table of finished runs: a row per config, whatever the seed, and a column per task. */
async function createRunsTable(folders: readonly string[]): Promise<ResultsTable> {
  const finished: FinishedRun[] = [];
  const notes: string[] = [];
  for (const run of await RunFolder.find(folders)) {
    const results = await run.results();
    if (results) finished.push({ run, results });
    else notes.push(`${run.folder}: not finished, left out`);
  }
  if (finished.length === 0) throw new UserError(`${folders.join(", ")}: no run has finished.`);
  const tasks = groupRuns(finished);
  const seeds = [...new Set(finished.map(({ run }) => run.config.seed))].sort((a, b) => a - b);
  const rows = new Map<string, Record<string, TableCell>>();
  const columns: { id: string; title: string; metrics: readonly string[] }[] = [];
  for (const { task, groups, baseline: own } of tasks) {
    const shown = new Set(["accuracy"]);
    const measured = await Promise.all(groups.map(({ name, runs }) => readColumnRow(name, runs, seeds)));
    const column = compareColumn(measured, own.name, notes);
    for (const { name, runs } of groups) {
      const cells = rows.get(name) ?? {};
      rows.set(name, cells);
      for (const [metric, cell] of column.get(name)!) {
        cells[`${task}/${metric}`] = cell;
        if (isMeasuredAfterTraining(metric, runs)) shown.add(metric);
      }
    }
    columns.push({ id: task, title: task, metrics: [...shown] });
  }
  const baselines = [...new Set(tasks.map(({ baseline }) => baseline.name))];
  const [baseline = null] = baselines;
  if (baselines.length > 1)
    notes.push(`compared with ${tasks.map(({ task, baseline: own }) => `${own.name} (${task})`).join(", ")}`);
  const tableRows: TableRow[] = [...rows].map(([id, cells]) => ({ id, title: id, cells, selected: {} }));
  return {
    format: 2,
    name: "runs",
    title: "Runs",
    profile: null,
    publishedTable: null,
    baselines: baseline === null ? [] : [baseline],
    significance: "examples",
    seeds,
    columns,
    rows: addSignificanceTests(tableRows, columns, baseline),
    notes,
  };
}

/** Besides accuracy, the table shows only what was measured after training. */
function isMeasuredAfterTraining(metric: string, runs: readonly FinishedRun[]): boolean {
  return metric !== "clean" && !runs.some(({ results }) => metric in results.test.metrics);
}

async function readColumnRow(row: string, runs: readonly FinishedRun[], seeds: readonly number[]): Promise<ColumnRow> {
  const measured = seeds.map(async (seed) => {
    const run = runs.find(({ run: { config } }) => config.seed === seed)?.run;
    return run ? { seed, metrics: await readMetrics(run), degeneracy: await readDegeneracy(run) } : null;
  });
  return { row, seeds: await Promise.all(measured) };
}
