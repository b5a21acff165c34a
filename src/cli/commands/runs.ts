import type { Command } from "@commander-js/extra-typings";
import { formatCount, formatPercent } from "../../format.js";
import { listRuns, type RunSummary } from "../../runs/list-runs.js";
import { getColors, type Io, write } from "../io.js";
import { formatHelpExamples, jsonOption } from "../options.js";
import { formatTable, printJson } from "../output.js";

export function define(command: Command, io: Io): void {
  command
    .argument("[folder]", "where to look for runs", "runs")
    .addOption(jsonOption("print the runs as JSON"))
    .addHelpText("after", formatHelpExamples("temper runs", "temper runs runs/sst2 --json"))
    .action((folder, options) => printRuns(io, folder, options));
}

async function printRuns(io: Io, folder: string, { json }: { json?: true | undefined }): Promise<void> {
  const found = await listRuns(folder);
  if (json) return printJson(io, found);
  if (found.length === 0) return write(io.stdout, `no runs in ${folder}\n`);
  const rows = found.map((run) => [
    run.folder,
    run.task ?? "",
    run.method ?? "",
    run.seed ?? "",
    formatState(io, run),
    formatSteps(run),
    formatScore(run),
  ]);
  const head = ["run", "task", "method", "seed", "state", "steps", "score"];
  await write(io.stdout, `${formatTable(io.stdout, rows, { head, numeric: [3, 5, 6] })}\n`);
  for (const { folder: failed, failure } of found) if (failure) await write(io.stdout, `${failed}: ${failure}\n`);
}

function formatState(io: Io, { state }: RunSummary): string {
  const { cyan, yellow, green, red } = getColors(io.stdout);
  const color = { running: cyan, stopped: yellow, finished: green, failed: red, damaged: red }[state];
  return color(state);
}

function formatSteps({ step, steps: total, state }: RunSummary): string {
  if (state === "damaged") return "";
  return total === null || total === step ? formatCount(step) : `${formatCount(step)} of ${formatCount(total)}`;
}

/** What it scored in its report; before that, the best that selection saw. */
function formatScore({ score: reported, selected, selectBy }: RunSummary): string {
  if (reported !== null) return formatPercent(reported);
  return selected === null ? "" : `${selectBy} ${selected.toFixed(3)} so far`;
}
