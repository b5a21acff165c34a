import { join } from "node:path";
import type { Command } from "@commander-js/extra-typings";
import { formatBytes, formatCount, formatNumber, formatRoughDuration } from "../../base/format.js";
import { interruptedExitCode, onStopSignals } from "../../base/processes.js";
import { formatCommandLine } from "../../base/shell.js";
import { slurmKeys } from "../../jobs/slurm.js";
import type { PlannedSweep, SweepEvent, SweepInputs } from "../../sweeps/index.js";
import {
  estimateSeconds,
  formatWorkItem,
  getSweepFolder,
  listShippedSweeps,
  listWorkPhases,
  planSweep,
  type SweepEstimate,
  type SweepRequest,
  sweep,
  sweepRequestSchema,
  toMarkdown,
  type WorkPhase,
} from "../../sweeps/index.js";
import { ExitCode } from "../command.js";
import { type Io, removeControls, write } from "../io.js";
import { addOptions, quietOption } from "../options.js";
import { formatNext, formatTable, printJson } from "../output.js";
import { createSweepProgress } from "../sweep-progress.js";

export const note = "Exit codes: 0 if everything is done, 1 if something failed, 130 if it was stopped.";
export const examples = [
  "temper sweep experiments/rose-table-1.yaml --profile small --dry-run",
  "temper sweep experiments/rift-table-1.yaml --profile small --out runs/rift-1",
  "temper sweep experiments/rift-table-1.yaml --profile small --out runs/rift-1 --resume",
  "temper sweep experiments/rose-table-1.yaml --backend slurm --partition gpu --gpus 1 --time 8:00:00 --yes",
];

function addSweepOptions(command: Command) {
  const { shape } = sweepRequestSchema;
  const withFile = command.argument("[file]", `${shape.file.description}; none: list those`);
  const withRequest = addOptions(withFile, shape, ["file", "estimate", "slurm"], { allowManyRuns: "--yes" });
  return addOptions(withRequest, slurmKeys, [], { options: "--sbatch <option>" })
    .option("--dry-run", "print the plan and its cost; write nothing")
    .option("--no-estimate", "skip measuring how long it will take")
    .option("--json", "print the plan or the table as JSON")
    .addOption(quietOption());
}

type SweepCommandOptions = ReturnType<ReturnType<typeof addSweepOptions>["opts"]>;

export function define(command: Command, io: Io): void {
  addSweepOptions(command).action((file, options) => {
    if (file === undefined) return printShippedSweeps(io, options.json);
    const { dryRun, json, quiet, partition, gpus, cpus, time, memory, options: sbatch, ...rest } = options;
    const request = { file, ...rest, slurm: { partition, gpus, cpus, time, memory, options: sbatch } };
    return dryRun ? printPlan(io, request, options) : execute(io, request, options);
  });
}

async function printShippedSweeps(io: Io, json: boolean | undefined): Promise<void> {
  const sweeps = await listShippedSweeps();
  if (json) return printJson(io, sweeps);
  const rows = sweeps.map(({ name, title, profiles }) => [name, profiles.join(", "), title]);
  await write(io.stdout, `${formatTable(io.stdout, rows, { head: ["sweep", "profiles", "title"] })}\n`);
  await write(io.stdout, formatNext(["sweep", sweeps[0]!.name, "--dry-run"]));
}

async function execute(io: Io, request: SweepRequest, options: SweepCommandOptions): Promise<void> {
  const { json, quiet } = options;
  const [stop, kill] = [new AbortController(), new AbortController()];
  let unlisten = (): void => undefined;
  const onSignal = (): void => {
    if (stop.signal.aborted) kill.abort();
    else io.stderr.write("\nThe runs save their work and stop. Signal again to end them at once.\n");
    stop.abort();
  };
  const estimating = showEstimate(io, request, options, stop);
  const progress = createSweepProgress(io, getSweepFolder(request), quiet === true);
  const { out, status, failures, table, report } = await sweep(request, {
    onEvent(event) {
      if (event.type === "progress") estimating.onEvent(event);
      if (event.type === "estimate" && !quiet)
        io.stderr.write(removeControls(`${formatTable(io.stderr, formatCosts(event.planned))}\n`));
      if (event.type === "sweep-start") {
        estimating.end();
        unlisten = onStopSignals(onSignal);
      }
      progress.onEvent(event);
    },
    signal: stop.signal,
    killSignal: kill.signal,
  }).finally(() => {
    estimating.end();
    progress.end();
    unlisten();
  });
  if (status === "submitted")
    return void (quiet || io.stderr.write(`Follow the jobs with: ${formatResumeCommand()}\n`));
  if (status === "interrupted") {
    io.stderr.write(`\nStopped; finished work is kept. Continue with: ${formatResumeCommand()}\n`);
    throw new ExitCode(interruptedExitCode);
  }
  await (json ? printJson(io, table) : write(io.stdout, toMarkdown(table!)));
  if (!quiet) io.stderr.write(`Table: ${join(out, "table.md")} and .json${report ? `\nReport: ${report}` : ""}\n`);
  for (const { item, error, command, log } of failures)
    await write(
      io.stderr,
      `failed: ${formatWorkItem(item)}\n  ${error.replaceAll("\n", "\n  ")}\n` +
        `  log: ${log}\n  to try again: ${command}\n`,
    );
  if (failures.length > 0) throw new ExitCode(1);
}

function formatResumeCommand(): string {
  const words = process.argv.slice(2).filter((word) => word !== "--detach");
  return formatCommandLine(["temper", ...words, ...(words.includes("--resume") ? [] : ["--resume"])]);
}

function showEstimate(
  io: Io,
  { file, estimate = true, backend }: SweepRequest,
  { quiet }: SweepCommandOptions,
  stop: AbortController,
): { onEvent(event: SweepEvent): void; end(): void } {
  const print = (text: string): void => void (quiet || io.stderr.write(removeControls(`estimate: ${text}\n`)));
  if (estimate && backend !== "slurm") print(`checks ${file}`);
  let unlisten: (() => void) | null = null;
  return {
    onEvent(event) {
      if (event.type === "warning") print(event.message);
      if (event.type !== "progress") return;
      // Before the first stage, nothing has to be cleaned up and a signal ends the process.
      unlisten ??= onStopSignals(() => stop.abort());
      print(`${event.done + 1} of ${event.total}: ${event.stage}`);
    },
    end: () => unlisten?.(),
  };
}

async function printPlan(io: Io, request: SweepRequest, options: SweepCommandOptions): Promise<void> {
  const stop = new AbortController();
  const { onEvent, end } = showEstimate(io, request, options, stop);
  const planned = await planSweep(request, { onEvent, signal: stop.signal }).finally(end);
  const { out, plan, configs, unfinished, estimate, inputs } = planned;
  if (options.json)
    return printJson(io, { out, ...plan, runs: configs, unfinished: unfinished.length, estimate, inputs });
  const rows = plan.cells.map(({ row, column, points }) => [
    row,
    column,
    points.length,
    points.length * plan.settings.seeds.length,
  ]);
  const head = ["row", "column", "combinations", "runs"];
  await write(io.stdout, `${plan.settings.title}\n\n${formatTable(io.stdout, rows, { head, numeric: [2, 3] })}\n\n`);
  await write(io.stdout, `${formatTable(io.stdout, formatCosts(planned))}\n`);
  await write(io.stdout, formatInputs(inputs));
}

function formatInputs({ downloads, files }: SweepInputs): string {
  const isComplete = downloads.length === 0 && files.every(({ isThere }) => isThere);
  return [
    ...(downloads.length > 0 ? ["\nDownloads from the Hugging Face Hub:"] : []),
    ...downloads.map(({ name, bytes, problem }) =>
      bytes === null ? `  ${name}: unknown size. ${problem}` : `  ${name}: ${formatBytes(bytes)}`,
    ),
    ...(files.length > 0 ? ["\nFiles that you supply:"] : []),
    ...files.map(({ path, isThere, command, source }) =>
      isThere ? `  ${path}: found` : `  ${path}: missing. Build it with:\n    ${command}\n    from the ${source}`,
    ),
    ...(isComplete ? [] : ["\nTime and GPU-hours are measured when all of this is there."]),
  ]
    .map((line) => `${line}\n`)
    .join("");
}

function formatCosts({ plan, unfinished, estimate }: PlannedSweep): string[][] {
  const count = (wanted: WorkPhase["kind"]): number =>
    listWorkPhases(plan).reduce((sum, { kind, items }) => sum + (kind === wanted ? items.length : 0), 0);
  const [evaluations, analyses] = [count("evaluate"), count("analyze")];
  const stages = Object.keys(plan.stages);
  const all = plan.runs.length;
  const runs = formatCount(unfinished.length);
  const later = [
    ...(evaluations > 0 ? [`${formatCount(evaluations)} evaluations of selected runs`] : []),
    ...(analyses > 0 ? [`${formatCount(analyses)} analyses`] : []),
  ];
  return [
    ...(stages.length > 0 ? [["first", `stage ${stages.join(", stage ")}`]] : []),
    ["runs", unfinished.length < all ? `${runs} of ${formatCount(all)}; the others are done` : runs],
    ...(estimate ? formatEstimate(estimate) : []),
    ...(later.length > 0 ? [["then", later.join(", ")]] : []),
  ];
}

function formatEstimate(estimate: SweepEstimate): string[][] {
  const { seconds, low, high, concurrentRuns, device, step, scaled, diskBytes } = estimate;
  const format = (value: number): string => formatRoughDuration(value / concurrentRuns);
  const missing = [
    ...(scaled.methods.length > 0 ? [`methods ${scaled.methods.join(", ")}`] : []),
    ...(scaled.data.length > 0 ? [`data ${scaled.data.join(", ")}`] : []),
  ];
  return [
    [
      "time",
      `about ${format(seconds)} (${format(low)} to ${format(high)}; measured with steps of up to ` +
        `${step.batchSize} x ${step.length} tokens) to train on ${device}` +
        (concurrentRuns > 1 ? `, ${concurrentRuns} concurrent runs` : ""),
    ],
    ...(missing.length > 0
      ? [["scaled", `${missing.join("; ")}: not measured, because the ${estimateSeconds} s for it were used up`]]
      : []),
    ...(device === "cpu" ? [] : [["GPU-hours", `about ${formatNumber(seconds / 3600, 2)}`]]),
    ["disk", `up to ${formatBytes(diskBytes)}`],
  ];
}
