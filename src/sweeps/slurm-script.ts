import { shellQuote } from "../shell.js";
import type { SlurmSettings } from "./schema.js";
import { interruptedExitCode, temperProgram } from "./subprocess.js";

/** Seconds before the time limit at which a job is told to save. */
const warningSeconds = 60;

/**
 * The script of an array: task i works on entry i of the list. The signal before the time limit reaches this shell, which tells the
 * worker; what has been saved is queued again and goes on from there.
 */
export function createJobScript(list: string): string {
  const worker = [...temperProgram, "work", list].map(shellQuote).join(" ");
  return `#!/bin/sh
${worker} "$SLURM_ARRAY_TASK_ID" &
worker=$!
again=
trap 'again=yes; kill -TERM $worker 2>/dev/null' USR1
trap 'kill -TERM $worker 2>/dev/null' TERM INT
wait $worker
code=$?
# A signal ends the wait before the worker ends.
while kill -0 $worker 2>/dev/null; do
  wait $worker
  code=$?
done
if [ "$again" = yes ] && [ $code -ge ${interruptedExitCode} ]; then
  scontrol requeue "$SLURM_JOB_ID"
  exit 0
fi
exit $code
`;
}

/** The options of sbatch for an array of so many tasks. */
export function createSbatchOptions(
  settings: SlurmSettings,
  job: {
    readonly name: string;
    readonly tasks: number;
    readonly jobs: number | null;
    readonly log: string;
    readonly after: readonly string[];
  },
): string[] {
  const { partition, gpus, cpus, time, memory, options } = settings;
  return [
    `--job-name=${job.name}`,
    `--array=0-${job.tasks - 1}${job.jobs === null ? "" : `%${job.jobs}`}`,
    `--output=${job.log}`,
    "--open-mode=append",
    "--requeue",
    `--signal=B:USR1@${warningSeconds}`,
    `--cpus-per-task=${cpus}`,
    ...(partition === null ? [] : [`--partition=${partition}`]),
    ...(gpus > 0 ? [`--gres=gpu:${gpus}`] : []),
    ...(time === null ? [] : [`--time=${time}`]),
    ...(memory === null ? [] : [`--mem=${memory}`]),
    ...(job.after.length === 0 ? [] : [`--dependency=afterany:${job.after.join(":")}`]),
    ...options,
  ];
}
