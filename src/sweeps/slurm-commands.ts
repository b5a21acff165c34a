import { spawnSync } from "node:child_process";
import { userInfo } from "node:os";
import { didYouMean } from "../did-you-mean.js";
import { UserError } from "../errors.js";
import { formatCommandLine } from "../shell.js";

export interface CommandResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs one of Slurm's commands; a test puts its own in their place by PATH. */
function runSlurmCommand(command: string, args: readonly string[]): CommandResult {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: "utf8", maxBuffer: 1 << 28 });
  if (error && "code" in error && error.code === "ENOENT")
    throw new UserError(
      `--backend slurm: there is no ${command} on this machine; run it on a login node of the cluster, or leave --backend slurm out`,
    );
  return { code: status, stdout: stdout ?? "", stderr: stderr ?? error?.message ?? "" };
}

/** A job of an array, as the queue shows it. */
export interface QueuedTask {
  readonly job: string;
  readonly index: number;
  readonly name: string;
  /** PENDING, RUNNING, COMPLETING, … */
  readonly state: string;
  readonly reason: string;
}

/** The tasks in the queue whose jobs' names begin so. */
export function listQueuedTasks(prefix: string): QueuedTask[] {
  const end = runSlurmCommand("squeue", [
    "--noheader",
    "--array",
    `--user=${userInfo().username}`,
    "--format=%F|%K|%j|%T|%r",
  ]);
  if (end.code !== 0)
    throw new UserError(
      `squeue failed: ${getLastLine(end.stderr)}; try again when Slurm answers, with --resume where the sweep has begun`,
    );
  return end.stdout
    .split("\n")
    .map((line) => line.trim().split("|"))
    .filter((parts) => parts[2]?.startsWith(prefix))
    .map(([job, index, name, state, reason]) => ({
      job: job!,
      index: Number(index),
      name: name!,
      state: state!,
      reason: reason ?? "",
    }));
}

/** Slurm answers, and has the partition: found out before anything is written. */
export function checkSlurm(partition: string | null): void {
  checkPartition(partition);
  listQueuedTasks("");
}

function checkPartition(partition: string | null): void {
  const end = runSlurmCommand("sinfo", ["--noheader", "--format=%R"]);
  if (end.code !== 0) throw new UserError(`sinfo failed: ${getLastLine(end.stderr)}; is Slurm running?`);
  const known = [
    ...new Set(
      end.stdout
        .split("\n")
        .map((line) => line.trim())
        .filter((name) => name !== ""),
    ),
  ];
  if (partition === null || known.includes(partition)) return;
  throw new UserError(
    `--partition ${partition}: this cluster has no such partition${didYouMean(partition, known)}; it has ${known.join(", ")}. ` +
      "Name one with --partition, or slurm.partition in the sweep's file",
  );
}

/** The most tasks that one array may have here. */
export function readMaxArraySize(): number {
  const { stdout } = runSlurmCommand("scontrol", ["show", "config"]);
  const found = /^MaxArraySize\s*=\s*(\d+)/m.exec(stdout)?.[1];
  // Its own default, less one: indices end below it.
  return (found === undefined ? 1001 : Number(found)) - 1;
}

/** Submits a job and returns its number. */
export function submitJob(args: readonly string[]): string {
  const end = runSlurmCommand("sbatch", ["--parsable", ...args]);
  const job = /^(\d+)/.exec(end.stdout.trim())?.[1];
  if (end.code === 0 && job !== undefined) return job;
  throw new UserError(
    `sbatch refused the job: ${getLastLine(end.stderr) || `exit code ${end.code}`}\nThe command was: ${formatCommandLine(["sbatch", ...args])}\n` +
      "What was submitted before goes on; mend the settings (--partition, --gpus, --time, --memory, --sbatch) and give --resume",
  );
}

/** How a task ended, as Slurm knows it: from its accounting where that answers, else from what the controller still remembers. */
export function readTaskState(job: string, index: number): string | null {
  const accounting = tryCommand("sacct", [
    "--noheader",
    "--allocations",
    "--parsable2",
    `--jobs=${job}_${index}`,
    "--format=State,ExitCode",
  ]);
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

function getLastLine(text: string): string {
  return text.trim().split("\n").at(-1) ?? "";
}
