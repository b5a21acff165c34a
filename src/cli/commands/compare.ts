import type { Command } from "@commander-js/extra-typings";
import {
  alignSeeds,
  compareModels,
  type MetricComparison,
  metricsWithoutCommonExamples,
} from "../../evaluation/compare.js";
import { formatCount, formatPercent } from "../../format.js";
import { readModelOutcomes } from "../../runs/read-outcomes.js";
import { type Io, write } from "../io.js";
import { formatHelpExamples, jsonOption, seedOption } from "../options.js";
import { formatTable, printJson } from "../output.js";

export function define(command: Command, io: Io): void {
  command
    .argument("<first>", "a run, a folder of journals, or a folder of several runs that differ in their seed")
    .argument("<second>", "another one, on the same examples")
    .addOption(seedOption("decides the resamples").default(0))
    .addOption(jsonOption("print the comparison as JSON"))
    .addHelpText(
      "after",
      `\nBoth are compared example by example: by McNemar's test with one run each, over seeds and examples with several.\n${formatHelpExamples(
        "temper compare runs/sst2-rose-seed0 runs/sst2-standard-seed0",
        "temper compare attacks/rift attacks/standard --json",
      )}`,
    )
    .action(async (first, second, { seed, json }) => {
      const sides = alignSeeds(await readModelOutcomes(first), await readModelOutcomes(second));
      if (sides.leftOut.length > 0)
        await write(io.stderr, `left out, since only one side has them: seeds ${sides.leftOut.join(", ")}\n`);
      const comparisons = compareModels(sides.first, sides.second, seed);
      const apart = metricsWithoutCommonExamples(sides.first, sides.second);
      if (apart.length > 0)
        await write(io.stderr, `left out, since no example is common to both sides: ${apart.join(", ")}\n`);
      await (json ? printJson(io, { first, second, comparisons }) : printComparisons(io, comparisons, first, second));
    });
}

async function printComparisons(
  io: Io,
  comparisons: readonly MetricComparison[],
  first: string,
  second: string,
): Promise<void> {
  const rows = comparisons.map(
    ({ measure, examples: count, seeds, first: one, second: other, difference, low, high, p }) => [
      measure,
      formatCount(count),
      formatCount(seeds),
      formatPercent(one),
      formatPercent(other),
      formatPoints(difference),
      `${formatPoints(low)} to ${formatPoints(high)}`,
      p.corrected.toFixed(4),
    ],
  );
  const head = ["", "examples", "seeds", first, second, "points", "95 % interval", "p"];
  const lines = comparisons.map(({ verdict }) => `${verdict}.\n`);
  await write(
    io.stdout,
    `${lines.join("")}\n${formatTable(io.stdout, rows, { head, numeric: [1, 2, 3, 4, 5, 6, 7] })}\n`,
  );
}

function formatPoints(difference: number): string {
  return (100 * difference).toFixed(1);
}
