import type { Command } from "@commander-js/extra-typings";
import { describeAttack, describeAttacks } from "../../attacks/describe-attacks.js";
import { loadAttack } from "../../attacks/load-attack.js";
import { isModulePath } from "../../base/trust.js";
import { type Io, write } from "../io.js";
import { formatOptions, formatTable, printJson } from "../output.js";

export const note = "Use an attack with temper attack MODEL --attack NAME:option=value. Queries are per example.";
export const examples = ["temper attacks", "temper attacks textfooler", "temper attacks guard --json"];

export function define(command: Command, io: Io): void {
  command
    .argument("[name]", "an attack, or the path of a module with a custom attack (default: all)")
    .option("--json", "print the attacks as JSON")
    .action(async (name, { json }) => {
      const found =
        name !== undefined && isModulePath(name)
          ? [describeAttack((await loadAttack(name)).definition)]
          : describeAttacks(name);
      if (json) return printJson(io, name === undefined ? found : found[0]);
      await write(io.stdout, name === undefined ? formatList(io, found) : formatAttack(io, found[0]!));
    });
}

function formatList(io: Io, attacks: ReturnType<typeof describeAttacks>): string {
  const rows = attacks.map(({ name, summary }) => [name, summary]);
  const table = formatTable(io.stdout, rows, { head: ["attack", ""] });
  return `${table}\n\nRun temper attacks NAME for the parts, options and resources of an attack.\n`;
}

function formatAttack(io: Io, attack: ReturnType<typeof describeAttack>): string {
  const { name, summary, paper, goal, transformations, constraints, search, cost, resources, differences } = attack;
  const list = (label: string, items: readonly string[]): string[][] =>
    items.map((item, i) => [i === 0 ? label : "", item]);
  const facts = [
    ["attack", name],
    ["what it does", summary],
    ["paper", paper],
    ["goal", goal],
    ...list("transformations", transformations),
    ...list("constraints", constraints),
    ["search", search],
    ["queries", cost],
    ...list("needs", resources),
    ...(differences === null ? [] : [["differences", differences]]),
  ];
  const table = formatOptions(io, attack.options);
  return `${formatTable(io.stdout, facts)}\n\n${attack.options.length > 0 ? table : "It has no options."}\n`;
}
