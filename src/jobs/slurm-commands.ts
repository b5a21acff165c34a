import { spawnSync } from "node:child_process";
import { userInfo } from "node:os";
import { didYouMean } from "../base/did-you-mean.js";
import { UserError } from "../base/errors.js";
import { formatCommandLine, shellQuote } from "../base/shell.js";
import type { Trust } from "../base/trust.js";
import type { SlurmSettings } from "./slurm-settings.js";
import { temperProgram } from "./temper-program.js";
import { formatTrust } from "./worker-process.js";

/**
 * Runs a command of Slurm and returns its output. If the command fails, throws the error that
 * `describe` gives, if any. Tests replace the commands through PATH.
 */
function runSlurmCommand(command: string, args: readonly string[], describe?: (problem: string) => string): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: "utf8", maxBuffer: 1 << 28 });
  if (error && "code" in error && error.code === "ENOENT")
    throw new UserError(
      `--backend slurm: this host has no ${command}. Use a login node of the cluster, or leave out --backend slurm.`,
    );
  if (status === 0 || !describe) return stdout ?? "";
  const problem = (stderr ?? error?.message ?? "").trim().split("\n").at(-1);
  throw new UserError(describe(problem || `exit code ${status}`));
}

/** A task of a job array, as squeue lists it. */
export interface QueuedTask {
  readonly job: string;
  readonly index: number;
  readonly name: string;
  /** PENDING, RUNNING, COMPLETING, … */
  readonly state: string;
  readonly reason: string;
}

/** The tasks in the queue whose job names start with the prefix. */
export function listQueuedTasks(prefix: string): QueuedTask[] {
  const args = ["--noheader", "--array", `--user=${userInfo().username}`, "--format=%F|%K|%j|%T|%r"];
  const describe = (problem: string): string =>
    `squeue failed: ${problem}. Try again when Slurm responds, with --resume if the sweep has started.`;
  return runSlurmCommand("squeue", args, describe)
    .split("\n")
    .map((line) => line.trim().split("|"))
    .filter((parts) => parts[2]?.startsWith(prefix))
    .map(([job = "", index, name = "", state = "", reason = ""]) => ({
      job,
      index: Number(index),
      name,
      state,
      reason,
    }));
}

/** Checks that Slurm responds and has the partition, before anything is written. */
export function checkSlurm(partition: string | null): void {
  const describe = (problem: string): string => `sinfo failed: ${problem}. Check that Slurm is running.`;
  const lines = runSlurmCommand("sinfo", ["--noheader", "--format=%R"], describe).split("\n");
  const known = [...new Set(lines.map((line) => line.trim()).filter((name) => name !== ""))];
  if (partition !== null && !known.includes(partition))
    throw new UserError(
      `--partition ${partition}: there is no such partition${didYouMean(partition, known)}. ` +
        `The partitions are ${known.join(", ")}. Set --partition, or slurm.partition in the sweep file.`,
    );
  listQueuedTasks("");
}

/** The maximum number of tasks of one job array. */
export function readMaxArraySize(): number {
  const found = /^MaxArraySize\s*=\s*(\d+)/m.exec(runSlurmCommand("scontrol", ["show", "config"]))?.[1];
  // Indices are below MaxArraySize, whose default is 1001.
  return (found === undefined ? 1001 : Number(found)) - 1;
}

/** Submits a job and returns its number. */
export function submitJob(args: readonly string[]): string {
  const describe = (problem: string): string =>
    `sbatch rejected the job: ${problem}\nThe command was: ${formatCommandLine(["sbatch", ...args])}\n` +
    "Jobs that were submitted before continue. " +
    "Fix the settings (--partition, --gpus, --time, --memory, --sbatch) and pass --resume.";
  const output = runSlurmCommand("sbatch", ["--parsable", ...args], describe).trim();
  const job = /^\d+/.exec(output)?.[0];
  if (job === undefined) throw new UserError(describe(output || "no job number"));
  return job;
}

/** How a task ended, from the accounting if it responds, otherwise from the controller. */
export function readTaskState(job: string, index: number): string | null {
  const format = ["--noheader", "--allocations", "--parsable2", "--format=State,ExitCode"];
  const accounting = tryCommand("sacct", [...format, `--jobs=${job}_${index}`]);
  const [state, code] = accounting.trim().split("\n").at(-1)?.split("|") ?? [];
  if (state) return code && code !== "0:0" ? `${state}, exit code ${code}` : state;
  const shown = tryCommand("scontrol", ["show", "job", "--oneliner", `${job}_${index}`]);
  const found = /JobState=(\S+).*?Reason=(\S+)/.exec(shown);
  return found ? `${found[1]}${found[2] === "None" ? "" : `, ${found[2]}`}` : null;
}

function tryCommand(command: string, args: readonly string[]): string {
  const { status, stdout } = spawnSync(command, args, { encoding: "utf8" });
  return status === 0 ? stdout : "";
}

/** The options of sbatch for the resources of a task. */
export function formatSlurmOptions({ partition, gpus, cpus, time, memory, options }: SlurmSettings): string[] {
  return [
    `--cpus-per-task=${cpus}`,
    ...(partition === null ? [] : [`--partition=${partition}`]),
    ...(gpus > 0 ? [`--gres=gpu:${gpus}`] : []),
    ...(time === null ? [] : [`--time=${time}`]),
    ...(memory === null ? [] : [`--mem=${memory}`]),
    ...options,
  ];
}

/** Exit codes of workers that were interrupted (130) or killed by a signal (above). */
const minInterruptedCode = 130;

/**
 * The script of a job array: task i executes item i of the list. Slurm signals this shell before
 * the time limit, and the shell signals the worker. The job is then queued again and continues from
 * what was saved.
 */
export function createJobScript(list: string, trust: Trust): string {
  const worker = [...temperProgram, "worker", ...formatTrust(trust), list].map(shellQuote).join(" ");
  return `#!/bin/sh
${worker} --item "$SLURM_ARRAY_TASK_ID" &
worker=$!
requeue=
trap 'requeue=yes; kill -TERM $worker 2>/dev/null' USR1
trap 'kill -TERM $worker 2>/dev/null' TERM INT
wait $worker
code=$?
# A signal ends the wait before the worker ends.
while kill -0 $worker 2>/dev/null; do
  wait $worker
  code=$?
done
if [ "$requeue" = yes ] && [ $code -ge ${minInterruptedCode} ]; then
  scontrol requeue "$SLURM_JOB_ID"
  exit 0
fi
exit $code
`;
}
