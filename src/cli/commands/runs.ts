import type { Command } from "@commander-js/extra-typings";
import { formatCount, formatPercent } from "../../format.js";
import { listRuns, type RunSummary } from "../../runs/run.js";
import { getColors, type Io, write } from "../io.js";
import { formatTable, printJson } from "../output.js";

export const examples = ["temper runs", "temper runs runs/sst2 --json"];

export function define(command: Command, io: Io): void {
  command
    .argument("[folder]", "folder to search for runs", "runs")
    .option("--json", "print the runs as JSON")
    .action(async (folder, { json }) => {
      const runs = await listRuns(folder);
      if (json) await printJson(io, runs);
      else await write(io.stdout, runs.length === 0 ? `No runs in ${folder}.\n` : formatRuns(io, runs));
    });
}

function formatRuns(io: Io, runs: readonly RunSummary[]): string {
  const { cyan, yellow, green, red } = getColors(io.stdout);
  const colors = { running: cyan, stopped: yellow, finished: green, failed: red, damaged: red };
  const rows = runs.map((run) => [
    ...[run.folder, run.task ?? "", run.method ?? "", run.seed ?? ""],
    ...[colors[run.state](run.state), formatSteps(run), formatAccuracy(run)],
  ]);
  const head = ["run", "task", "method", "seed", "state", "steps", "accuracy"];
  const failures = runs.flatMap(({ folder, failure }) => (failure ? [`${folder}: ${failure}\n`] : []));
  return `${formatTable(io.stdout, rows, { head, numeric: [3, 5, 6] })}\n${failures.join("")}`;
}

function formatSteps({ step, steps: total, state }: RunSummary): string {
  if (state === "damaged") return "";
  return total === null || total === step ? formatCount(step) : `${formatCount(step)} of ${formatCount(total)}`;
}

/** Accuracy on the test split; before the run has finished, the best validation value. */
function formatAccuracy({ accuracy, bestValidation, metricForBestModel }: RunSummary): string {
  if (accuracy !== null) return formatPercent(accuracy);
  return bestValidation === null ? "" : `validation ${metricForBestModel} ${bestValidation.toFixed(3)}`;
}
