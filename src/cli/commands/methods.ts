import type { Command } from "@commander-js/extra-typings";
import { describeMethods, type MethodDescription } from "../../methods/describe-methods.js";
import { type Io, write } from "../io.js";
import { formatOptions, formatTable, printJson } from "../output.js";

export const note =
  "The cost is the time of a training step as a multiple of a standard step. GPU: BERT-base, 32 texts of at most 128 " +
  "tokens, bf16 (smart: tf32), one H200. CPU: MiniLM, 32 texts of 32 tokens, fp32, one thread. Use a method with " +
  "temper train --method NAME:option=value. Methods can be stacked.";
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
  const rows = methods.map(({ name, cost, summary }) => {
    const mark = cost?.extra === undefined ? "" : " +";
    return [name, `${cost?.gpu ?? "–"}${mark}`, `${cost?.cpu ?? "–"}${mark}`, summary];
  });
  const table = formatTable(io.stdout, rows, { head: ["method", "cost (GPU)", "cost (CPU)", ""] });
  const extras = methods.flatMap(({ name, cost }) =>
    cost?.extra === undefined ? [] : [`+ ${name}: ${cost.extra} come on top.\n`],
  );
  return `${table}\n\n${extras.join("")}Run temper methods NAME for the options of a method.\n`;
}

function formatCost({ gpu, cpu, extra }: NonNullable<MethodDescription["cost"]>): string {
  const step = `GPU: ${gpu}; CPU: ${cpu} (a step as a multiple of a standard step)`;
  return extra === undefined ? step : `${step}; ${extra} come on top`;
}

function formatMethod(io: Io, { name, summary, paper, cost, options }: MethodDescription): string {
  const facts = [
    ["method", name],
    ["what it does", summary],
    ["paper", paper],
    ["cost", cost === null ? "not measured" : formatCost(cost)],
  ];
  const table = formatOptions(io, options);
  return `${formatTable(io.stdout, facts)}\n\n${options.length > 0 ? table : "It has no options."}\n`;
}
