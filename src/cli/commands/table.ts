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
    .action(async (folders, { paper, format, json }) => {
      const tables = await Promise.all(
        (await readTables(folders)).map(async (table) => ({
          table,
          published: paper ? await readPublishedNumbers(table) : null,
        })),
      );
      const all = tables.map(({ table, published }) => addPublishedNumbers(table, published));
      if (json) return printJson(io, all);
      const render = format === "csv" ? toCsv : toMarkdown;
      await write(io.stdout, tables.map(({ table, published }) => render(table, published)).join("\n"));
    });
}

/** Reads one table per sweep, and one of all other runs. */
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
