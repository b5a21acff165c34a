import { join } from "node:path";
import type { Command } from "@commander-js/extra-typings";
import { UserError } from "../../errors.js";
import { formatBytes, formatCount, formatDuration } from "../../format.js";
import { acquireLock } from "../../lock.js";
import { formatCommandLine } from "../../shell.js";
import { estimateSweep, type SweepEstimate } from "../../sweeps/estimate.js";
import { countRuns, maxUnconfirmedRuns } from "../../sweeps/expand.js";
import { createSweepPlan, readSweepPlan, type SweepPlan, sweepFiles, writeSweepPlan } from "../../sweeps/plan.js";
import { readSweep } from "../../sweeps/read-sweep.js";
import { runLocally, type WorkItemFailure } from "../../sweeps/run-local.js";
import type { SlurmSettings } from "../../sweeps/schema.js";
import { runOnSlurm, submitSweep } from "../../sweeps/slurm.js";
import { checkSlurm } from "../../sweeps/slurm-commands.js";
import { interruptedExitCode } from "../../sweeps/subprocess.js";
import { formatWorkItem, isWorkItemDone, listWorkItems } from "../../sweeps/work-item.js";
import { checkSweepOptions } from "../check-sweep-options.js";
import { ExitCode } from "../command.js";
import { finishSweep } from "../finish-sweep.js";
import { type Io, write } from "../io.js";
import { formatHelpExamples } from "../options.js";
import { formatTable, printJson } from "../output.js";
import { createProgress } from "../progress.js";
import { onStopSignals } from "../signals.js";
import { addSweepOptions, resolveSlurmSettings, type SweepCommandOptions } from "../sweep-options.js";
import { createSweepProgress } from "../sweep-progress.js";

export function define(command: Command, io: Io): void {
  addSweepOptions(command)
    .addHelpText(
      "after",
      `\nThe exit code is 0 where all is done, 1 where something failed, 130 where it was stopped.\n${formatHelpExamples(
        "temper sweep experiments/sweeps/rose-table-1.yaml --profile small --dry-run",
        "temper sweep experiments/sweeps/rift-table-1.yaml --profile small --out runs/rift-1",
        "temper sweep experiments/sweeps/rift-table-1.yaml --profile small --out runs/rift-1 --resume",
        "temper sweep experiments/sweeps/rose-table-1.yaml --backend slurm --partition gpu --gpus 1 --time 8:00:00 --yes",
      )}`,
    )
    .action((file, options) => sweep(io, file, options));
}

async function sweep(io: Io, file: string, options: SweepCommandOptions): Promise<void> {
  const read = await readSweep(file, options.profile ?? null, options.set ?? []);
  checkSweepOptions(read, io);
  const named = countRuns(read);
  if (named > maxUnconfirmedRuns && !options.yes && !options.dryRun)
    throw new UserError(
      `${file}: this sweep has ${formatCount(named)} runs, more than ${formatCount(maxUnconfirmedRuns)}; look at it with --dry-run, then give --yes`,
    );
  const plan = createSweepPlan(read);
  const out = options.out ?? join("runs", plan.profile ? `${plan.name}-${plan.profile}` : plan.name);
  if (options.dryRun) return dryRun(io, out, plan, options);
  const slurm = options.backend === "slurm" ? resolveSlurmSettings(read.settings.slurm, options) : null;
  if (slurm) checkSlurm(slurm.partition);
  await checkSweepFolder(out, options.resume === true);
  if (!slurm && options.estimate) await printEstimate(io, out, plan, options);
  await writeSweepPlan(out, plan, options.resume === true);
  const release = acquireLock(
    join(out, sweepFiles.lock),
    (owner) => new UserError(`${out}: ${owner} is working on this sweep; wait for it`),
  );
  try {
    const failures = slurm
      ? await runSlurmSweep(io, out, plan, slurm, options)
      : await runLocalSweep(io, out, plan, options);
    if (failures === null) return;
    await finishSweep(io, out, plan, options);
    await printFailures(io, failures);
    if (failures.length > 0) throw new ExitCode(1);
  } finally {
    release();
  }
}

async function checkSweepFolder(out: string, resume: boolean): Promise<void> {
  if (!resume && (await readSweepPlan(out)))
    throw new UserError(`${out} holds a sweep already: give --resume to go on with it, or another --out`);
}

async function runLocalSweep(
  io: Io,
  out: string,
  plan: SweepPlan,
  options: SweepCommandOptions,
): Promise<WorkItemFailure[] | null> {
  const [stop, kill] = [new AbortController(), new AbortController()];
  const onSignal = (): void => {
    if (stop.signal.aborted) kill.abort();
    else io.stderr.write("\nthe runs save what they have and stop; once more ends them at once\n");
    stop.abort();
  };
  const unlisten = onStopSignals(onSignal);
  const watch = createSweepProgress(io, out, options.quiet === true);
  try {
    const failures = await runLocally(out, plan, {
      jobs: options.jobs ?? null,
      stop: stop.signal,
      kill: kill.signal,
      callbacks: watch,
    });
    watch.end();
    if (!stop.signal.aborted) return failures;
    io.stderr.write(`stopped; what is done stays done. Go on with: ${resumeCommand()}\n`);
    throw new ExitCode(interruptedExitCode);
  } finally {
    watch.end();
    unlisten();
  }
}

async function runSlurmSweep(
  io: Io,
  out: string,
  plan: SweepPlan,
  settings: SlurmSettings,
  options: SweepCommandOptions,
): Promise<WorkItemFailure[] | null> {
  const watch = createSweepProgress(io, out, options.quiet === true);
  const stop = new AbortController();
  const onSignal = (): void => stop.abort();
  const slurm = { settings, jobs: options.jobs ?? null, watch, stop: stop.signal };
  if (options.detach) {
    const submitted = await submitSweep(out, plan, slurm);
    if (!options.quiet)
      io.stderr.write(`submitted ${formatCount(submitted)} tasks; follow them with: ${resumeCommand()}\n`);
    return null;
  }
  process.on("SIGINT", onSignal);
  try {
    const failures = await runOnSlurm(out, plan, slurm);
    if (!stop.signal.aborted) return failures;
    watch.end();
    io.stderr.write(`\nthe jobs go on. Follow them with: ${resumeCommand()}\n`);
    throw new ExitCode(interruptedExitCode);
  } finally {
    watch.end();
    process.off("SIGINT", onSignal);
  }
}

/** This command line once more, to go on with. */
function resumeCommand(): string {
  const words = process.argv.slice(2).filter((word) => word !== "--detach");
  return formatCommandLine(["temper", ...words, ...(words.includes("--resume") ? [] : ["--resume"])]);
}

async function dryRun(io: Io, out: string, plan: SweepPlan, options: SweepCommandOptions): Promise<void> {
  const left = await findUnfinishedRuns(out, plan);
  const estimate = options.estimate && left.length > 0 ? await estimateCost(io, plan, left, options) : null;
  if (options.json) return printJson(io, { out, ...plan, left: left.length, estimate });
  const rows = plan.cells.map(({ row, column, points }) => [
    row,
    column,
    points.length,
    points.length * plan.settings.seeds.length,
  ]);
  const head = ["row", "column", "combinations", "runs"];
  await write(io.stdout, `${plan.settings.title}\n\n${formatTable(io.stdout, rows, { head, numeric: [2, 3] })}\n\n`);
  await write(io.stdout, `${formatTable(io.stdout, formatCosts(plan, left, estimate, options.jobs ?? 1))}\n`);
}

async function printEstimate(io: Io, out: string, plan: SweepPlan, options: SweepCommandOptions): Promise<void> {
  const left = await findUnfinishedRuns(out, plan);
  if (left.length === 0) return;
  const estimate = await estimateCost(io, plan, left, options);
  if (!options.quiet)
    io.stderr.write(`${formatTable(io.stderr, formatCosts(plan, left, estimate, options.jobs ?? 1))}\n`);
}

async function findUnfinishedRuns(out: string, plan: SweepPlan): Promise<string[]> {
  const left: string[] = [];
  for (const workItem of listWorkItems(plan).train)
    if (workItem.kind === "train" && !(await isWorkItemDone(out, plan, workItem))) left.push(workItem.run);
  return left;
}

async function estimateCost(
  io: Io,
  plan: SweepPlan,
  left: readonly string[],
  { quiet }: SweepCommandOptions,
): Promise<SweepEstimate> {
  const progress = createProgress({ label: "measure the cost", unit: "trials", quiet, stream: io.stderr });
  return estimateSweep(plan, left, (done) => progress.update(done)).finally(progress.end);
}

function formatCosts(
  plan: SweepPlan,
  left: readonly string[],
  estimate: SweepEstimate | null,
  jobs: number,
): string[][] {
  const workItems = listWorkItems(plan);
  const all = Object.keys(plan.runs).length;
  const later = [
    ...(workItems.measure.length > 0 ? [`${formatCount(workItems.measure.length)} chosen runs are measured`] : []),
    ...(workItems.figures.length > 0 ? [`${formatCount(workItems.figures.length)} figures are drawn`] : []),
  ];
  return [
    ["runs", `${formatCount(left.length)}${left.length < all ? ` of ${formatCount(all)}, the others are done` : ""}`],
    ...(estimate
      ? [
          [
            "time",
            `about ${formatDuration((1000 * estimate.seconds) / jobs)} to train on ${estimate.device}${jobs > 1 ? `, ${jobs} at once` : ""}`,
          ],
          ["memory", `about ${formatBytes(estimate.memoryBytes)} a run`],
          ["disk", `up to ${formatBytes(estimate.diskBytes)}`],
        ]
      : []),
    ...(later.length > 0 ? [["then", later.join(", ")]] : []),
  ];
}

async function printFailures(io: Io, failures: readonly WorkItemFailure[]): Promise<void> {
  for (const { workItem, error, command } of failures)
    await write(
      io.stderr,
      `failed: ${formatWorkItem(workItem)}\n  ${error.replaceAll("\n", "\n  ")}\n  again: ${command}\n`,
    );
}
