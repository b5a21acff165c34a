import { join } from "node:path";
import type { Command } from "@commander-js/extra-typings";
import { UserError } from "../errors.js";
import { formatBytes, formatCount, formatDuration } from "../format.js";
import { acquireLock } from "../lock.js";
import { commandLine } from "../shell.js";
import { type Estimate, estimateRuns } from "../sweeps/estimate.js";
import { countRuns, manyRuns } from "../sweeps/expand.js";
import { type Failure, runLocally } from "../sweeps/local.js";
import { type Plan, planSweep, readPlan, sweepFiles, writePlan } from "../sweeps/plan.js";
import { readSweep } from "../sweeps/read-sweep.js";
import type { SlurmSettings } from "../sweeps/schema.js";
import { runOnSlurm, submitSweep } from "../sweeps/slurm.js";
import { checkSlurm } from "../sweeps/slurm-commands.js";
import { interruptedCode } from "../sweeps/step.js";
import { isUnitDone, nameOf, unitsOf } from "../sweeps/unit.js";
import { finishSweep } from "./finish-sweep.js";
import { type Io, write } from "./io.js";
import { examples } from "./options.js";
import { printJson, table } from "./output.js";
import { openProgress } from "./progress.js";
import { onStopSignals } from "./signals.js";
import { checkFlags } from "./sweep-flags.js";
import { addSweepOptions, type SweepOptions, slurmOf } from "./sweep-options.js";
import { watchSweep } from "./sweep-view.js";
import { ExitCode } from "./verb.js";

export function define(command: Command, io: Io): void {
  addSweepOptions(command)
    .addHelpText(
      "after",
      `\nThe exit code is 0 where all is done, 1 where something failed, 130 where it was stopped.\n${examples(
        "temper sweep experiments/sweeps/rose-table-1.yaml --profile small --dry-run",
        "temper sweep experiments/sweeps/rift-table-1.yaml --profile small --out runs/rift-1",
        "temper sweep experiments/sweeps/rift-table-1.yaml --profile small --out runs/rift-1 --resume",
        "temper sweep experiments/sweeps/rose-table-1.yaml --on slurm --partition gpu --gpus 1 --time 8:00:00 --yes",
      )}`,
    )
    .action((file, options) => sweep(io, file, options));
}

async function sweep(io: Io, file: string, options: SweepOptions): Promise<void> {
  const read = await readSweep(file, options.profile ?? null, options.set ?? []);
  checkFlags(read, io);
  const named = countRuns(read);
  if (named > manyRuns && !options.yes && !options.dryRun)
    throw new UserError(
      `${file}: this sweep has ${formatCount(named)} runs, more than ${formatCount(manyRuns)}; look at it with --dry-run, then give --yes`,
    );
  const plan = planSweep(read);
  const out = options.out ?? join("runs", plan.profile ? `${plan.name}-${plan.profile}` : plan.name);
  if (options.dryRun) return dryRun(io, out, plan, options);
  const slurm = options.on === "slurm" ? slurmOf(read.settings.slurm, options) : null;
  if (slurm) checkSlurm(slurm.partition);
  await checkFolder(out, options.resume === true);
  if (!slurm && options.estimate) await showEstimate(io, out, plan, options);
  await writePlan(out, plan, options.resume === true);
  const release = acquireLock(
    join(out, sweepFiles.lock),
    (owner) => new UserError(`${out}: ${owner} is working on this sweep; wait for it`),
  );
  try {
    const failures = slurm ? await onSlurm(io, out, plan, slurm, options) : await here(io, out, plan, options);
    if (failures === null) return;
    await finishSweep(io, out, plan, options);
    await listFailures(io, failures);
    if (failures.length > 0) throw new ExitCode(1);
  } finally {
    release();
  }
}

async function checkFolder(out: string, resume: boolean): Promise<void> {
  if (!resume && (await readPlan(out)))
    throw new UserError(`${out} holds a sweep already: give --resume to go on with it, or another --out`);
}

async function here(io: Io, out: string, plan: Plan, options: SweepOptions): Promise<Failure[] | null> {
  const [stop, kill] = [new AbortController(), new AbortController()];
  const onSignal = (): void => {
    if (stop.signal.aborted) kill.abort();
    else io.stderr.write("\nthe runs save what they have and stop; once more ends them at once\n");
    stop.abort();
  };
  const unlisten = onStopSignals(onSignal);
  const watch = watchSweep(io, out, options.quiet === true);
  try {
    const failures = await runLocally(out, plan, { jobs: options.jobs ?? null, stop: stop.signal, kill: kill.signal, watch });
    watch.end();
    if (!stop.signal.aborted) return failures;
    io.stderr.write(`stopped; what is done stays done. Go on with: ${resumeCommand()}\n`);
    throw new ExitCode(interruptedCode);
  } finally {
    watch.end();
    unlisten();
  }
}

async function onSlurm(io: Io, out: string, plan: Plan, settings: SlurmSettings, options: SweepOptions): Promise<Failure[] | null> {
  const watch = watchSweep(io, out, options.quiet === true);
  const stop = new AbortController();
  const onSignal = (): void => stop.abort();
  const slurm = { settings, jobs: options.jobs ?? null, watch, stop: stop.signal };
  if (options.detach) {
    const submitted = await submitSweep(out, plan, slurm);
    if (!options.quiet) io.stderr.write(`submitted ${formatCount(submitted)} tasks; follow them with: ${resumeCommand()}\n`);
    return null;
  }
  process.on("SIGINT", onSignal);
  try {
    const failures = await runOnSlurm(out, plan, slurm);
    if (!stop.signal.aborted) return failures;
    watch.end();
    io.stderr.write(`\nthe jobs go on. Follow them with: ${resumeCommand()}\n`);
    throw new ExitCode(interruptedCode);
  } finally {
    watch.end();
    process.off("SIGINT", onSignal);
  }
}

/** This command line once more, to go on with. */
function resumeCommand(): string {
  const words = process.argv.slice(2).filter((word) => word !== "--detach");
  return commandLine(["temper", ...words, ...(words.includes("--resume") ? [] : ["--resume"])]);
}

async function dryRun(io: Io, out: string, plan: Plan, options: SweepOptions): Promise<void> {
  const left = await unfinished(out, plan);
  const estimate = options.estimate && left.length > 0 ? await measure(io, plan, left, options) : null;
  if (options.json) return printJson(io, { out, ...plan, left: left.length, estimate });
  const rows = plan.cells.map(({ row, column, points }) => [row, column, points.length, points.length * plan.settings.seeds.length]);
  const head = ["row", "column", "combinations", "runs"];
  await write(io.stdout, `${plan.settings.title}\n\n${table(io.stdout, rows, { head, numeric: [2, 3] })}\n\n`);
  await write(io.stdout, `${table(io.stdout, costs(plan, left, estimate, options.jobs ?? 1))}\n`);
}

async function showEstimate(io: Io, out: string, plan: Plan, options: SweepOptions): Promise<void> {
  const left = await unfinished(out, plan);
  if (left.length === 0) return;
  const estimate = await measure(io, plan, left, options);
  if (!options.quiet) io.stderr.write(`${table(io.stderr, costs(plan, left, estimate, options.jobs ?? 1))}\n`);
}

async function unfinished(out: string, plan: Plan): Promise<string[]> {
  const left: string[] = [];
  for (const unit of unitsOf(plan).train) if (unit.kind === "train" && !(await isUnitDone(out, plan, unit))) left.push(unit.run);
  return left;
}

async function measure(io: Io, plan: Plan, left: readonly string[], { quiet }: SweepOptions): Promise<Estimate> {
  const progress = openProgress({ label: "measure the cost", unit: "trials", quiet, stream: io.stderr });
  return estimateRuns(plan, left, (done) => progress.update(done)).finally(progress.end);
}

function costs(plan: Plan, left: readonly string[], estimate: Estimate | null, jobs: number): string[][] {
  const units = unitsOf(plan);
  const all = Object.keys(plan.runs).length;
  const later = [
    ...(units.measure.length > 0 ? [`${formatCount(units.measure.length)} chosen runs are measured`] : []),
    ...(units.figures.length > 0 ? [`${formatCount(units.figures.length)} figures are drawn`] : []),
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

async function listFailures(io: Io, failures: readonly Failure[]): Promise<void> {
  for (const { unit, error, command } of failures)
    await write(io.stderr, `failed: ${nameOf(unit)}\n  ${error.replaceAll("\n", "\n  ")}\n  again: ${command}\n`);
}
