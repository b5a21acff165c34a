import { type Command, Option } from "@commander-js/extra-typings";
import { addPublishedNumbers, table, toCsv, toMarkdown } from "../../sweeps/index.js";
import { type Io, removeEscapes, write } from "../io.js";
import { printJson } from "../output.js";

export const examples = ["temper table runs/rose-table-1-small --paper"];

export function define(command: Command, io: Io): void {
  command
    .argument("<folder...>", "folders of sweeps")
    .option("--paper", "add the published numbers, with their confidence intervals")
    .addOption(
      new Option("--format <name>", "output format").choices(["markdown", "csv"] as const).default("markdown" as const),
    )
    .option("--json", "print the tables as JSON")
    .action(async (folders, { paper, format, json }) => {
      const tables = await table({ folders, paper: paper ?? false });
      const all = tables.map(({ table, published }) => addPublishedNumbers(table, published));
      if (json) return printJson(io, all);
      const render = format === "csv" ? toCsv : toMarkdown;
      await write(io.stdout, removeEscapes(tables.map(({ table, published }) => render(table, published)).join("\n")));
    });
}
