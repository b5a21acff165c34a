import type { Command } from "@commander-js/extra-typings";
import { describeMethods, type MethodDescription } from "../../methods/describe-methods.js";
import { type Io, write } from "../io.js";
import { formatTable, printJson } from "../output.js";

export const note =
  "The cost is the time of a training step as a multiple of a standard step (BERT-base, 32 texts of at most 128\n" +
  "tokens, one H200; for smart, of a step in tf32). Use a method with temper train --method NAME:option=value.\n" +
  "Methods can be stacked.";
export const examples = ["temper methods", "temper methods rose", "temper methods rift --json"];

export function define(command: Command, io: Io): void {
  command
    .argument("[name]", "a method, or the path of a module with a custom method (default: all)")
    .option("--json", "print the methods as JSON")
    .action(async (name, { json }) => {
      const found = await describeMethods(name);
      if (json) return printJson(io, name === undefined ? found : found[0]);
      await write(io.stdout, name === undefined ? formatList(io, found) : formatMethod(io, found[0]!));
    });
}

function formatList(io: Io, methods: readonly MethodDescription[]): string {
  const rows = methods.map(({ name, cost, summary }) => [name, cost ?? "–", summary]);
  const table = formatTable(io.stdout, rows, { head: ["method", "cost", ""] });
  return `${table}\n\nRun temper methods NAME for the options of a method.\n`;
}

function formatMethod(io: Io, { name, summary, paper, cost, options }: MethodDescription): string {
  const facts = [
    ["method", name],
    ["what it does", summary],
    ["paper", paper],
    ["cost", cost === null ? "not measured" : `${cost} times a standard step`],
  ];
  const rows = options.map(({ name: option, values, default: standard, description }) => [
    option,
    values,
    standard === null ? "–" : String(standard),
    description,
  ]);
  const table = formatTable(io.stdout, rows, { head: ["option", "values", "default", ""] });
  return `${formatTable(io.stdout, facts)}\n\n${options.length > 0 ? table : "It has no options."}\n`;
}
