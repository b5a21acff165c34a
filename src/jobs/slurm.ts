// Job arrays of `temper worker` on a Slurm cluster. Workers claim their work from files, so nothing is recorded here.
import { spawnSync } from "node:child_process";
import { userInfo } from "node:os";
import { join, resolve } from "node:path";
import { z } from "zod";
import { didYouMean } from "../base/did-you-mean.js";
import { UserError } from "../base/errors.js";
import { formatCommandLine } from "../base/shell.js";
import { acceptOne, countSchema } from "../base/validate.js";

export const slurmKeys = {
  partition: z.string().min(1).nullable().describe("Slurm: partition"),
  gpus: z.number().int().nonnegative().describe("Slurm: GPUs per run"),
  cpus: countSchema.describe("Slurm: CPU cores per run"),
  time: z
    .string({ error: 'expected a time in Slurm\'s format, in quotes: "4:00:00" or "2-12"' })
    .regex(/^(\d+|\d+:\d\d(:\d\d)?|\d+-\d+(:\d\d){0,2})$/, {
      error: 'expected a time in Slurm\'s format: "90" (minutes), "4:00:00" or "2-12"',
    })
    .nullable()
    .describe("Slurm: time limit of a job, such as 4:00:00; longer runs continue in another job"),
  memory: z
    .string({ error: 'expected a size in Slurm\'s format: "16G"' })
    .regex(/^\d+[KMGT]?$/i, { error: 'expected a size in Slurm\'s format: "16G"' })
    .nullable()
    .describe("Slurm: memory of a job, such as 16G"),
  options: z.array(z.string().startsWith("--")).describe("Slurm: any other sbatch option (--sbatch=--account=nlp)"),
};

export const slurmOverridesSchema = z.strictObject(slurmKeys).partial();

export const slurmSchema = z.strictObject({
  partition: slurmKeys.partition.default(null),
  gpus: slurmKeys.gpus.default(0),
  cpus: slurmKeys.cpus.default(1),
  time: slurmKeys.time.default(null),
  memory: slurmKeys.memory.default(null),
  options: acceptOne(slurmKeys.options.default([])),
});
export type SlurmSettings = z.output<typeof slurmSchema>;

function runSlurmCommand(command: string, args: readonly string[], describe: (problem: string) => string): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: "utf8", maxBuffer: 1 << 28 });
  if (error && "code" in error && error.code === "ENOENT")
    throw new UserError(
      `--backend slurm: this host has no ${command}. Use a login node of the cluster, or leave out --backend slurm.`,
    );
  if (status === 0) return stdout;
  const problem = (stderr ?? error?.message ?? "").trim().split("\n").at(-1);
  throw new UserError(describe(problem || `exit code ${status}`));
}

/** Checks that Slurm responds and has the partition, before anything is written. */
export function checkSlurm(partition: string | null): void {
  const describe = (problem: string): string => `sinfo failed: ${problem}. Check that Slurm is running.`;
  const known = [...new Set(runSlurmCommand("sinfo", ["--noheader", "--format=%R"], describe).split(/\s+/))];
  if (partition !== null && !known.includes(partition))
    throw new UserError(
      `--partition ${partition}: there is no such partition${didYouMean(partition, known)}. ` +
        `The partitions are ${known.filter(Boolean).join(", ")}. Set --partition, or slurm.partition in the sweep file.`,
    );
  listQueuedJobs("temper");
}

export function listQueuedJobs(
  name: string,
): { readonly id: string; readonly state: string; readonly reason: string }[] {
  const describe = (problem: string): string =>
    `squeue failed: ${problem}. Try again when Slurm responds, with --resume if the work has started.`;
  const output = runSlurmCommand(
    "squeue",
    ["--noheader", `--user=${userInfo().username}`, `--name=${name}`, "--format=%F|%T|%r"],
    describe,
  );
  return output
    .split("\n")
    .map((line) => line.trim().split("|"))
    .filter((parts) => parts.length === 3)
    .map(([id = "", state = "", reason = ""]) => ({ id, state, reason }));
}

/** Cancels jobs. Their workers get SIGTERM and save their work. */
export function cancelJobs(ids: readonly string[]): void {
  if (ids.length > 0) spawnSync("scancel", [...new Set(ids)]);
}

/** Seconds before the time limit at which a worker is asked to save its work. */
const warningSeconds = 60;

export function submitWorkers({
  name,
  tasks,
  command,
  folder,
  after = null,
  settings,
}: {
  readonly name: string;
  readonly tasks: number;
  /** The shell command of a worker. The number of its task is in SLURM_ARRAY_TASK_ID. */
  readonly command: string;
  readonly folder: string;
  readonly after?: string | null;
  readonly settings: SlurmSettings;
}): string {
  const { partition, gpus, cpus, time, memory, options } = settings;
  const args = [
    "--parsable",
    `--job-name=${name}`,
    `--array=0-${tasks - 1}`,
    // Slurm replaces % in file names; %% is a percent sign.
    `--output=${join(resolve(folder).replaceAll("%", "%%"), "%A_%a.log")}`,
    "--open-mode=append",
    "--requeue",
    `--signal=B:TERM@${warningSeconds}`,
    ...(after === null ? [] : [`--dependency=afterany:${after}`]),
    `--cpus-per-task=${cpus}`,
    ...(partition === null ? [] : [`--partition=${partition}`]),
    ...(gpus > 0 ? [`--gres=gpu:${gpus}`] : []),
    ...(time === null ? [] : [`--time=${time}`]),
    ...(memory === null ? [] : [`--mem=${memory}`]),
    ...options,
    // The worker replaces the shell, so that it gets the signals.
    `--wrap=exec ${command}`,
  ];
  const describe = (problem: string): string =>
    `sbatch rejected the job: ${problem}\nThe command was: ${formatCommandLine(["sbatch", ...args])}\n` +
    "Jobs that were submitted before continue. " +
    "Fix the settings (--partition, --gpus, --time, --memory, --sbatch) and pass --resume.";
  const output = runSlurmCommand("sbatch", args, describe).trim();
  const job = /^\d+/.exec(output)?.[0];
  if (job === undefined) throw new UserError(describe(output || "no job number"));
  return job;
}
