import { type Command, Option } from "@commander-js/extra-typings";
import { UserError } from "../../errors.js";
import { collectResults } from "../../sweeps/collect-results.js";
import { readSweepPlan } from "../../sweeps/plan.js";
import { type PublishedTable, readPublishedTable } from "../../sweeps/published-results.js";
import { addPublishedNumbers, toCsv, toMarkdown } from "../../sweeps/render-table.js";
import { createRunsTable } from "../../sweeps/runs-table.js";
import type { ResultsTable } from "../../sweeps/table.js";
import { type Io, write } from "../io.js";
import { printJson } from "../output.js";

interface TableCommandOptions {
  paper?: true | undefined;
  format: "markdown" | "csv";
  json?: true | undefined;
}

export const examples = [
  "temper table runs/rose-table-1-small --paper",
  "temper table runs/sst2-standard-seed0 runs/sst2-rose-seed0",
];

export function define(command: Command, io: Io): void {
  command
    .argument("<folder...>", "sweep folders, run folders, or folders of runs")
    .option("--paper", "add the published numbers, with their confidence intervals")
    .addOption(
      new Option("--format <name>", "output format").choices(["markdown", "csv"] as const).default("markdown" as const),
    )
    .option("--json", "print the tables as JSON")
    .action((folders, options) => printTables(io, folders, options));
}

async function printTables(io: Io, folders: readonly string[], options: TableCommandOptions): Promise<void> {
  const tables: { table: ResultsTable; published: PublishedTable | null }[] = [];
  const others: string[] = [];
  for (const folder of folders) {
    const plan = await readSweepPlan(folder);
    if (plan) tables.push(await withPublishedTable(await collectResults(folder, plan), options));
    else others.push(folder);
  }
  if (others.length > 0) tables.push(await withPublishedTable(await createRunsTable(others), options));
  if (options.json)
    return printJson(
      io,
      tables.map(({ table, published }) => addPublishedNumbers(table, published)),
    );
  const render = options.format === "csv" ? toCsv : toMarkdown;
  await write(io.stdout, tables.map(({ table, published }) => render(table, published)).join("\n"));
}

async function withPublishedTable(
  table: ResultsTable,
  { paper }: TableCommandOptions,
): Promise<{ table: ResultsTable; published: PublishedTable | null }> {
  if (!paper) return { table, published: null };
  if (table.publishedTable === null)
    throw new UserError(`--paper: ${table.title} has no published table. Set publishedTable in the sweep file.`);
  return { table, published: await readPublishedTable(table.publishedTable) };
}
