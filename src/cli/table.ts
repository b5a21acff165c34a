import { type Command, Option } from "@commander-js/extra-typings";
import { UserError } from "../errors.js";
import { collect } from "../sweeps/collect.js";
import { toCsv, toJson, toMarkdown } from "../sweeps/draw.js";
import { readPlan } from "../sweeps/plan.js";
import { type PublishedTable, readPublished } from "../sweeps/published.js";
import type { Table } from "../sweeps/table.js";
import { tableOfRuns } from "../sweeps/table-of-runs.js";
import { type Io, write } from "./io.js";
import { examples, jsonOption } from "./options.js";
import { printJson } from "./output.js";

interface TableVerbOptions {
  paper?: true | undefined;
  format: "markdown" | "csv";
  json?: true | undefined;
}

export function define(command: Command, io: Io): void {
  command
    .argument("<folder...>", "folders of sweeps, or run folders, or folders of runs")
    .option("--paper", "the published figures beside ours, with the interval that their test sets allow")
    .addOption(new Option("--format <name>", "how it is written").choices(["markdown", "csv"] as const).default("markdown" as const))
    .addOption(jsonOption("print the tables as JSON"))
    .addHelpText(
      "after",
      examples("temper table runs/rose-table-1-small --paper", "temper table runs/sst2-standard-seed0 runs/sst2-rose-seed0"),
    )
    .action((folders, options) => tables(io, folders, options));
}

async function tables(io: Io, folders: readonly string[], options: TableVerbOptions): Promise<void> {
  const drawn: { table: Table; published: PublishedTable | null }[] = [];
  const others: string[] = [];
  for (const folder of folders) {
    const plan = await readPlan(folder);
    if (plan) drawn.push(await beside(await collect(folder, plan), options));
    else others.push(folder);
  }
  if (others.length > 0) drawn.push(await beside(await tableOfRuns(others), options));
  if (options.json)
    return printJson(
      io,
      drawn.map(({ table, published }) => toJson(table, published)),
    );
  const draw = options.format === "csv" ? toCsv : toMarkdown;
  await write(io.stdout, drawn.map(({ table, published }) => draw(table, published)).join("\n"));
}

async function beside(table: Table, { paper }: TableVerbOptions): Promise<{ table: Table; published: PublishedTable | null }> {
  if (!paper) return { table, published: null };
  if (table.paper === null)
    throw new UserError(`--paper: ${table.title} belongs to no paper's table; sweeps of experiments/sweeps do, by their key paper`);
  return { table, published: await readPublished(table.paper) };
}
