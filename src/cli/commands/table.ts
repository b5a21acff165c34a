import type { Command } from "@commander-js/extra-typings";
import { addPublishedNumbers, table, toMarkdown } from "../../sweeps/index.js";
import { type Io, removeEscapes, write } from "../io.js";
import { printJson } from "../output.js";

export const examples = ["temper table runs/rose-table-1-small --paper"];

export function define(command: Command, io: Io): void {
  command
    .argument("<folder...>", "folders of sweeps")
    .option("--paper", "add the published numbers, with their confidence intervals")
    .option("--json", "print the tables as JSON")
    .action(async (folders, { paper, json }) => {
      const tables = await table({ folders, paper: paper ?? false });
      const all = tables.map(({ table, published }) => addPublishedNumbers(table, published));
      if (json) return printJson(io, all);
      const text = tables.map(({ table, published }) => toMarkdown(table, published)).join("\n");
      await write(io.stdout, removeEscapes(text));
    });
}
