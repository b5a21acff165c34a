import { createHash } from "node:crypto";
import { readdir, realpath, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { UserError } from "../base/errors.js";
import { warn } from "../base/events.js";
import { createFolder } from "../base/files.js";
import { findLivingOwner } from "../base/lock.js";
import { formatCommandLine } from "../base/shell.js";
import type { Trust } from "../base/trust.js";
import { cancelJobs, listQueuedJobs, type SlurmSettings, submitWorkers } from "../jobs/slurm.js";
import { temperProgram } from "../jobs/temper-program.js";
import { formatTrust, Worker } from "../jobs/worker-process.js";
import { readSweepPlan, sweepFiles } from "./plan.js";
import type { WorkItemFailure } from "./run-local.js";
import { forgetFailures, getLockPath, readItemEnding, runWorkItem, type WorkItemResult } from "./run-work.js";
import type { SweepPlan } from "./schema.js";
import type { SweepCallbacks } from "./sweep-events.js";
import { formatWorkItem, listNeededRuns, listWorkPhases, resolveWorkItem, type WorkItem } from "./work-item.js";

export interface SlurmOptions {
  readonly settings: SlurmSettings;
  /** Concurrent workers. Null: one per work item. */
  readonly jobs: number | null;
  readonly detach: boolean;
  readonly onEvent?: SweepCallbacks["onEvent"];
  /** Aborted: the jobs are canceled. */
  readonly stop?: AbortSignal | undefined;
  readonly pollMilliseconds?: number;
  /** True if the jobs may run the modules that the sweep names. */
  readonly trust: Trust;
}

const defaultPollMilliseconds = 5000;

/** Runs what is left as a job array of workers per phase. Returns the items that failed. */
export async function runOnSlurm(out: string, plan: SweepPlan, options: SlurmOptions): Promise<WorkItemFailure[]> {
  const { detach, stop, pollMilliseconds = defaultPollMilliseconds } = options;
  const name = await getJobName(out);
  const isQueued = (): boolean => listQueuedJobs(name).length > 0;
  if (isQueued()) {
    warn(options, `The jobs of an earlier call are still in the queue (squeue --name=${name}).`);
    if (detach) return [];
    await followJobs(out, plan, name, options);
  }
  await forgetFailures(out, plan);
  let before: number | null = null;
  while (!stop?.aborted) {
    // Jobs that reach their time limit save their work, and others continue it. Without this check,
    // one that cannot finish a step in that time would be submitted forever.
    const progress = await measureProgressBytes(out);
    if (progress === before || !(await submitPhases(out, plan, name, options))) break;
    if (detach) return [];
    before = progress;
    await followJobs(out, plan, name, options);
    // A shared file system may show the last files a moment after their jobs have left the queue.
    if (!stop?.aborted) await delay(pollMilliseconds);
  }
  return stop?.aborted ? [] : listFailures(out, plan);
}

/** All jobs of a sweep have the same name, with the hash of its folder. */
async function getJobName(out: string): Promise<string> {
  const hash = createHash("sha256").update(await realpath(out));
  return `temper-${hash.digest("hex").slice(0, 8)}`;
}

/** Submits the phases with open items. Each starts when the one before has ended. */
async function submitPhases(out: string, plan: SweepPlan, name: string, options: SlurmOptions): Promise<boolean> {
  const { settings, jobs, trust, stop, pollMilliseconds = defaultPollMilliseconds } = options;
  const folder = join(out, sweepFiles.slurm);
  createFolder(folder);
  let after: string | null = null;
  for (const [index, { items }] of listWorkPhases(plan).entries()) {
    let open = 0;
    for (const item of items) {
      const ending = await readItemEnding(out, plan, item);
      if (ending?.state === "blocked" ? after === null : ending) continue;
      open++;
      // The worker of an earlier job has ended, but other hosts see that only after a while.
      while ((await isTaken(out, plan, item)) && !stop?.aborted) await delay(pollMilliseconds);
    }
    if (open === 0) continue;
    const tasks = Math.min(open, jobs ?? maxTasks);
    const command = formatCommandLine([...temperProgram, ...createWorkerArguments(out, index, trust)]);
    after = submitWorkers({ name, tasks, command, folder, after, settings });
  }
  return after !== null;
}

async function isTaken(out: string, plan: SweepPlan, item: WorkItem): Promise<boolean> {
  const work = await resolveWorkItem(out, plan, item);
  return work !== null && findLivingOwner(getLockPath(work)) !== null;
}

/** Most clusters allow arrays of this size. */
const maxTasks = 1000;

function createWorkerArguments(out: string, phase: number, trust: Trust): string[] {
  return ["worker", ...formatTrust(trust), "--sweep", resolve(out), "--phase", String(phase)];
}

/** Reasons of pending jobs that need no attention. */
const normalReasons = "None Priority Resources Dependency JobArrayTaskLimit BeginTime Cleaning".split(" ");

/** Waits until no job of the sweep is in the queue. Cancels the jobs if it is stopped. */
async function followJobs(out: string, plan: SweepPlan, name: string, options: SlurmOptions): Promise<void> {
  const { onEvent, stop, pollMilliseconds = defaultPollMilliseconds } = options;
  const reportedReasons = new Set(normalReasons);
  const items = listWorkPhases(plan).flatMap((phase) => phase.items);
  const open = new Set(items);
  onEvent?.({ type: "phase", phase: { kind: "sweep", items }, done: 0 });
  for (;;) {
    const jobs = listQueuedJobs(name);
    if (stop?.aborted) return cancelJobs(jobs.map(({ id }) => id));
    for (const { id, state, reason } of jobs) {
      if (state !== "PENDING" || reportedReasons.has(reason)) continue;
      reportedReasons.add(reason);
      warn(options, `Slurm does not start job ${id}: ${reason}. It may need more than the partition has.`);
    }
    for (const item of open) {
      const result = await readItemEnding(out, plan, item);
      if (!result || result.state === "blocked") continue;
      open.delete(item);
      onEvent?.({ type: "item-end", item, result });
    }
    if (jobs.length === 0) return;
    await delay(pollMilliseconds);
  }
}

/** Executes the items of a phase that nobody else works on. `onEnd` receives names and results. */
export async function runPhase(
  out: string,
  index: number,
  { trust, stop }: { readonly trust: Trust; readonly stop: AbortSignal },
  onEnd: (name: string, result: WorkItemResult) => void,
): Promise<void> {
  const plan = await readSweepPlan(out);
  if (!plan) throw new UserError(`--sweep ${out}: there is no sweep. Submit it again.`);
  const phases = listWorkPhases(plan);
  const phase = phases[index];
  if (!phase) throw new UserError(`--phase: expected a number below ${phases.length}, received ${index}.`);
  const worker = new Worker({ trust });
  try {
    for (const item of phase.items) {
      if (stop.aborted) return;
      // A run that is still missing may change which run an evaluation is for.
      const neededRuns = listNeededRuns(plan, item).map((run) => ({ kind: "train", run }) as const);
      if ((await readItemEnding(out, plan, item)) || !(await haveEnded(out, plan, neededRuns))) continue;
      const result = await runWorkItem(out, plan, item, worker, { stop, waits: false });
      if (result) onEnd(formatWorkItem(item), result);
    }
  } finally {
    await worker.close();
  }
}

async function haveEnded(out: string, plan: SweepPlan, items: readonly WorkItem[]): Promise<boolean> {
  for (const item of items) if ((await readItemEnding(out, plan, item)) === null) return false;
  return true;
}

async function listFailures(out: string, plan: SweepPlan): Promise<WorkItemFailure[]> {
  const failures: WorkItemFailure[] = [];
  for (const [index, { items }] of listWorkPhases(plan).entries())
    for (const item of items) {
      const result = await readItemEnding(out, plan, item);
      if (result?.state === "failed") failures.push({ item, ...result });
      if (result) continue;
      const error = `${formatWorkItem(item)} left the queue without a result. If --time is too short for one step, increase it.`;
      const command = formatCommandLine(["temper", ...createWorkerArguments(out, index, "data")]);
      failures.push({ item, state: "failed", error, command, log: join(out, sweepFiles.slurm) });
    }
  return failures;
}

/** The size of all JSON files of the runs, which grows with every progress. */
async function measureProgressBytes(out: string): Promise<number> {
  const folder = join(out, sweepFiles.runs);
  const names = (await readdir(folder, { recursive: true })).filter((name) => /\.jsonl?$/.test(name));
  // A lock or a checkpoint may disappear in the meantime.
  const sizes = await Promise.all(
    names.map((name) =>
      stat(join(folder, name)).then(
        ({ size }) => size,
        () => 0,
      ),
    ),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}
