import type { Command } from "@commander-js/extra-typings";
import { type ComparisonReport, compare, compareRequestSchema } from "../../actions/compare.js";
import { listen, warn } from "../../base/events.js";
import { formatCount, formatPercent, formatPoints, formatPValue } from "../../base/format.js";
import { describeMetric } from "../../evaluation/metric-table.js";
import { describeGuardMetrics } from "../../evaluation/operating-points.js";
import { RunFolder } from "../../runs/run-folder.js";
import { findComparedModels } from "../../sweeps/compared-models.js";
import { type Io, write } from "../io.js";
import { addOptions } from "../options.js";
import { formatNext, formatPath, formatTable, formatText, printJson } from "../output.js";
import { createCallbacks } from "../progress.js";

export const note =
  "The first one is compared with each of the others, example by example. One run each: McNemar's test. " +
  "Several seeds: a bootstrap over seeds and examples. P-values are Holm-corrected. A sweep stands for its rows, " +
  "one folder of many runs for its methods; their baseline is first.";
export const examples = [
  "temper compare runs/sst2-rose-seed0 runs/sst2-standard-seed0",
  "temper compare runs/rift runs/ascc runs/standard --json",
  "temper compare runs/rose-table-1-small --column rte",
];

export function define(command: Command, io: Io): void {
  const { shape } = compareRequestSchema;
  const withRuns = command.argument("<runs...>", shape.runs.description);
  addOptions(withRuns, shape, ["runs"])
    .option("--column <name>", "compare only this column of a sweep, or this task of a folder of runs")
    .option("--json", "print the comparisons as JSON")
    .action(async (folders, { json, column, ...request }) => {
      const callbacks = createCallbacks(io, false);
      // Warnings come after the table, so that they do not hide it.
      const warnings: string[] = [];
      const onEvent = listen({ warning: ({ message }) => warnings.push(message) }).onEvent;
      const reports: TitledReport[] = [];
      for (const { title, runs } of await findComparedModels(folders, column))
        reports.push({ ...(title !== null && { title }), ...(await compare({ runs, ...request }, { onEvent })) });
      if (json) await printJson(io, reports.length === 1 ? reports[0] : reports);
      else await write(io.stdout, reports.map((report) => formatComparison(io, report)).join("\n"));
      for (const message of new Set(warnings)) warn(callbacks, message);
      if (json) return;
      const runs = await Promise.all(folders.map((folder) => RunFolder.containing(folder)));
      if (runs.every((run) => run !== null))
        await write(io.stdout, formatNext(["report", ...folders.map((folder) => formatPath(folder))]));
    });
}

type TitledReport = ComparisonReport & { readonly title?: string };

function formatComparison(io: Io, { title, runs, comparisons, guards }: TitledReport): string {
  const rows = comparisons.map(({ metric, attackedLabel, secondName, examples, seeds, p, ...values }) => [
    describeMetric(metric, attackedLabel).title,
    formatCount(examples),
    formatCount(seeds),
    formatPercent(values.first),
    secondName,
    formatPercent(values.second),
    formatPoints(values.difference),
    `${formatPoints(values.low)} to ${formatPoints(values.high)}`,
    formatPValue(p.corrected).replace("= ", ""),
  ]);
  const head = ["metric", "examples", "seeds", runs[0]!, "compared with", "", "points", "95% CI", "p (Holm)"];
  // A model that is degenerate in every row is named once.
  const sentences = comparisons.map(({ verdict, warning }) => verdict.replace(` ${warning}`, ""));
  const notes = new Set(comparisons.flatMap(({ warning }) => warning ?? []));
  const verdicts = [...sentences, ...notes].map((sentence) => `${formatText(io.stdout, sentence)}\n`).join("");
  const table = formatTable(io.stdout, rows, { head, numeric: [1, 2, 3, 5, 6, 7, 8] });
  const points = guards.map(
    ({ name, seed, metrics }) => `${name}${seed === null ? "" : `, seed ${seed}`}: ${describeGuardMetrics(metrics)}\n`,
  );
  return `${title === undefined ? "" : `${title}\n\n`}${table}\n\n${verdicts}${points.join("")}`;
}
