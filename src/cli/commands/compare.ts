import type { Command } from "@commander-js/extra-typings";
import { formatCount, formatPercent } from "../../format.js";
import { type ComparisonReport, compareRequestSchema, compareRuns } from "../../runs/compare.js";
import { type Io, write } from "../io.js";
import { addOptions } from "../options.js";
import { formatTable, printJson } from "../output.js";
import { createCallbacks } from "../progress.js";

export const note =
  "The first one is compared with each of the others, example by example. One run each: McNemar's test.\n" +
  "Several seeds: a bootstrap over seeds and examples. P-values are Holm-corrected.";
export const examples = [
  "temper compare runs/sst2-rose-seed0 runs/sst2-standard-seed0",
  "temper compare runs/rift runs/ascc runs/standard --json",
];

export function define(command: Command, io: Io): void {
  const { shape } = compareRequestSchema;
  const withRuns = command.argument("<runs...>", `two or more ${shape.runs.description}`);
  addOptions(withRuns, shape, { seed: "<number>" })
    .option("--json", "print the comparisons as JSON")
    .action(async (runs, { json, ...request }) => {
      const report = await compareRuns({ runs, ...request }, createCallbacks(io, false));
      await (json ? printJson(io, report) : write(io.stdout, formatComparison(io, report)));
    });
}

function formatComparison(io: Io, { runs, comparisons }: ComparisonReport): string {
  const rows = comparisons.map(({ metric, examples, seeds, first, secondName, second, difference, low, high, p }) => [
    metric,
    formatCount(examples),
    formatCount(seeds),
    formatPercent(first),
    secondName,
    formatPercent(second),
    formatPoints(difference),
    `${formatPoints(low)} to ${formatPoints(high)}`,
    p.corrected.toFixed(4),
  ]);
  const head = ["metric", "examples", "seeds", runs[0]!, "compared with", "", "points", "95% CI", "p"];
  const verdicts = comparisons.map(({ verdict }) => `${verdict}\n`).join("");
  return `${verdicts}\n${formatTable(io.stdout, rows, { head, numeric: [1, 2, 3, 5, 6, 7, 8] })}\n`;
}

function formatPoints(difference: number): string {
  return (100 * difference).toFixed(1);
}
