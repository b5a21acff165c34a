import { createHash } from "node:crypto";
import { readdir, realpath, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import { warn } from "../base/events.js";
import { createFolder, readJson, writeFileAtomic } from "../base/files.js";
import { formatCommandLine } from "../base/shell.js";
import type { Trust } from "../base/trust.js";
import { validate } from "../base/validate.js";
import { hashRequest } from "../jobs/hash-request.js";
import {
  createJobScript,
  formatSlurmOptions,
  listQueuedTasks,
  type QueuedTask,
  readMaxArraySize,
  readTaskState,
  submitJob,
} from "../jobs/slurm-commands.js";
import type { SlurmSettings } from "../jobs/slurm-settings.js";
import { readWorkResult } from "../jobs/work-request.js";
import { recordFailure, Worker } from "../jobs/worker-process.js";
import { readSweepPlan, sweepFiles } from "./plan.js";
import type { SweepPlan } from "./plan-schema.js";
import type { WorkItemFailure } from "./run-local.js";
import { describeFailure, runWorkItem, type WorkItemResult } from "./run-work.js";
import { describeBlockedRuns } from "./stages.js";
import type { SweepCallbacks } from "./sweep-events.js";
import {
  formatWorkItem,
  isBlocked,
  isWorkItemDone,
  listWorkPhases,
  resolveWorkItem,
  type WorkItem,
  workItemSchema,
} from "./work-item.js";

/**
 * A list of work items, one per task of a job array. Nothing else is recorded about a submission.
 */
const jobListSchema = z.object({ out: z.string(), items: z.array(workItemSchema), job: z.string().nullable() });
type JobList = z.output<typeof jobListSchema>;

export interface SlurmOptions {
  readonly settings: SlurmSettings;
  /** Concurrent tasks per job array. Null: as many as the cluster allows. */
  readonly jobs: number | null;
  readonly onEvent?: SweepCallbacks["onEvent"];
  /** Aborted: the jobs continue without us. */
  readonly stop?: AbortSignal | undefined;
  readonly pollMilliseconds?: number;
  /** Whether the jobs may run the modules that the sweep names. */
  readonly trust: Trust;
}

export async function readJobList(path: string): Promise<JobList> {
  return validate(jobListSchema, await readJson(path, "the work items of a job"), path);
}

/** Runs what is left of a sweep on the cluster. Items that then have no result have failed. */
export async function runOnSlurm(out: string, plan: SweepPlan, options: SlurmOptions): Promise<WorkItemFailure[]> {
  const attempted = new Set<string>();
  await submitSweep(out, plan, options, attempted);
  let failures = await followSweep(out, plan, options);
  // Items that an earlier submission left, or that started before their training had ended, are
  // submitted once more.
  while (failures.length > 0 && !options.stop?.aborted) {
    if ((await submitSweep(out, plan, options, attempted)) === 0) break;
    failures = await followSweep(out, plan, options);
  }
  return failures;
}

/**
 * Submits the items that are not done, not queued and not yet attempted. Each phase starts when the
 * one before has ended. Returns the number of tasks.
 */
export async function submitSweep(
  out: string,
  plan: SweepPlan,
  options: SlurmOptions,
  attempted = new Set<string>(),
): Promise<number> {
  const queue = await SlurmQueue.open(out);
  const size = readMaxArraySize();
  let submitted = 0;
  let before: string[] = [];
  for (const { items } of listWorkPhases(plan)) {
    const queued = new Map(queue.listTasks().map(({ item, job }) => [formatWorkItem(item), job]));
    const waiting: WorkItem[] = [];
    for (const item of items) {
      const name = formatWorkItem(item);
      if (queued.has(name) || attempted.has(name) || (await isWorkItemDone(out, plan, item))) continue;
      attempted.add(name);
      waiting.push(item);
    }
    const phaseJobs = items.flatMap((item) => queued.get(formatWorkItem(item)) ?? []);
    for (let start = 0; start < waiting.length; start += size) {
      phaseJobs.push(await queue.submit(waiting.slice(start, start + size), options, before));
      submitted += Math.min(size, waiting.length - start);
    }
    if (phaseJobs.length > 0) before = [...new Set(phaseJobs)];
  }
  warn(options, `Submitted ${submitted} tasks. They continue even if this process ends.`);
  return submitted;
}

/** Seconds before the time limit at which a job is asked to save its work. */
const warningSeconds = 60;

/** Reasons of pending tasks that need no attention. */
const normalReasons = "None Priority Resources Dependency JobArrayTaskLimit BeginTime Cleaning".split(" ");

/** Waits until no task of the sweep is in the queue. Returns the items that then have no result. */
async function followSweep(out: string, plan: SweepPlan, options: SlurmOptions): Promise<WorkItemFailure[]> {
  const { onEvent, stop, pollMilliseconds = 5000 } = options;
  const queue = await SlurmQueue.open(out);
  const started = new Set<string>();
  const reportedReasons = new Set(normalReasons);
  for (const phase of listWorkPhases(plan)) {
    const open = new Map(phase.items.map((item) => [formatWorkItem(item), item]));
    onEvent?.({ type: "phase", phase, done: 0 });
    for (;;) {
      const tasks = queue.listTasks().map((task) => ({ ...task, name: formatWorkItem(task.item) }));
      for (const { state, reason, name, item } of tasks) {
        if (state === "PENDING" && !reportedReasons.has(reason)) {
          reportedReasons.add(reason);
          warn(options, `Slurm does not start ${name}: ${reason}. It may need more than the partition has.`);
        }
        if (state !== "RUNNING" || started.has(name) || !open.has(name)) continue;
        started.add(name);
        onEvent?.({ type: "item-start", item });
      }
      const queued = new Set(tasks.map(({ name }) => name));
      for (const [name, item] of open) {
        if (queued.has(name) || !(await isWorkItemDone(out, plan, item))) continue;
        open.delete(name);
        onEvent?.({ type: "item-end", item, result: { state: "done" } });
      }
      if (stop?.aborted) return [];
      if (![...open.keys()].some((name) => queued.has(name))) break;
      await delay(pollMilliseconds);
    }
  }
  const failures = await findFailures(out, plan, queue);
  if (failures.length === 0) return failures;
  // A shared file system may show the last files a moment after their jobs have left the queue.
  await delay(pollMilliseconds);
  return findFailures(out, plan, queue);
}

async function findFailures(out: string, plan: SweepPlan, queue: SlurmQueue): Promise<WorkItemFailure[]> {
  const failures: WorkItemFailure[] = [];
  for (const item of listWorkPhases(plan).flatMap(({ items }) => items)) {
    const work = await resolveWorkItem(out, plan, item);
    if (!work || (await isWorkItemDone(out, plan, item)) || (await isBlocked(out, plan, item))) continue;
    const result = await readWorkResult(work.resultPath).catch(() => null);
    const task = queue.findLatest(item);
    const state = task && readTaskState(task.job, task.index);
    const error = result?.hash === hashRequest(work.request) ? result.error?.message : undefined;
    const blocked = item.kind === "train" ? describeBlockedRuns(plan, item.run) : "";
    const command = formatCommandLine(["temper", "worker", task?.list ?? "LIST", "--item", String(task?.index ?? 0)]);
    failures.push({
      item,
      ...describeFailure(work, (error ?? `It left the queue without a result${state ? ` (${state})` : ""}.`) + blocked),
      ...(error === undefined && { command }),
    });
  }
  return failures;
}

/**
 * The jobs of a sweep folder. Their names have its hash and the number of their list, so nothing
 * else is stored.
 */
class SlurmQueue {
  readonly #out: string;
  readonly #prefix: string;
  readonly #lists: Map<number, JobList>;

  private constructor(out: string, hash: string, lists: Map<number, JobList>) {
    this.#out = resolve(out);
    this.#prefix = `temper-${hash}-`;
    this.#lists = lists;
  }

  static async open(out: string): Promise<SlurmQueue> {
    const hash = createHash("sha256").update(await realpath(out));
    const lists = new Map<number, JobList>();
    const queue = new SlurmQueue(out, hash.digest("hex").slice(0, 8), lists);
    const names = await readdir(join(out, sweepFiles.slurm)).catch(() => []);
    const numbers = names.flatMap((name) => /^(\d+)\.json$/.exec(name)?.[1] ?? []).map(Number);
    for (const number of numbers.sort((a, b) => a - b))
      lists.set(number, await readJobList(queue.#getPath(`${number}.json`)));
    return queue;
  }

  /** The tasks of the sweep that are in the queue now. */
  listTasks(): (QueuedTask & { readonly item: WorkItem })[] {
    return listQueuedTasks(this.#prefix).flatMap((task) => {
      const item = this.#lists.get(Number(task.name.slice(this.#prefix.length)))?.items[task.index];
      return item ? [{ ...task, item }] : [];
    });
  }

  /** Where an item was submitted last. */
  findLatest(item: WorkItem): { job: string; index: number; list: string } | null {
    for (const [number, { items, job }] of [...this.#lists].reverse()) {
      const index = items.findIndex((each) => formatWorkItem(each) === formatWorkItem(item));
      if (index >= 0 && job !== null) return { job, index, list: this.#getPath(`${number}.json`) };
    }
    return null;
  }

  async submit(items: WorkItem[], { settings, jobs, trust }: SlurmOptions, after: readonly string[]): Promise<string> {
    const number = Math.max(0, ...this.#lists.keys()) + 1;
    const list: JobList = { out: this.#out, items, job: null };
    const [path, script] = [this.#getPath(`${number}.json`), this.#getPath(`${number}.sh`)];
    createFolder(dirname(path));
    // The list is written first, because the job may start at once.
    await writeFileAtomic(path, `${JSON.stringify(list)}\n`);
    await writeFileAtomic(script, createJobScript(path, trust));
    const job = submitJob([
      `--job-name=${this.#prefix}${number}`,
      `--array=0-${items.length - 1}${jobs === null ? "" : `%${jobs}`}`,
      // Slurm replaces % in file names; %% is a percent sign.
      `--output=${join(dirname(path).replaceAll("%", "%%"), "%A_%a.log")}`,
      "--open-mode=append",
      "--requeue",
      `--signal=B:USR1@${warningSeconds}`,
      ...(after.length === 0 ? [] : [`--dependency=afterany:${after.join(":")}`]),
      ...formatSlurmOptions(settings),
      script,
    ]);
    await writeFileAtomic(path, `${JSON.stringify({ ...list, job })}\n`);
    this.#lists.set(number, { ...list, job });
    return job;
  }

  #getPath(name: string): string {
    return join(this.#out, sweepFiles.slurm, name);
  }
}

/** Executes one task of a job array: the item of that index in the list. */
export async function runQueuedItem(
  path: string,
  index: number,
  trust: Trust,
  stop: AbortSignal,
): Promise<WorkItemResult> {
  const { out, items } = await readJobList(path);
  const item = items[index];
  if (!item) throw new UserError(`${path}: expected an index below ${items.length}, received ${index}.`);
  const plan = await readSweepPlan(out);
  if (!plan) throw new UserError(`${out}: the sweep no longer exists. Submit it again.`);
  const work = await resolveWorkItem(out, plan, item);
  const before = work ? await measureProgressBytes(work.folder) : 0;
  const worker = new Worker({ trust });
  const result = await runWorkItem(out, plan, item, worker, { stop }).finally(() => worker.close());
  if (!work || result.state !== "interrupted" || (await measureProgressBytes(work.folder)) > before) return result;
  // Without this, a job that cannot finish one step within its time limit would be queued again
  // forever.
  const error = "It was stopped before it had finished one step. If the time limit is the cause, increase --time.";
  await recordFailure(work.resultPath, hashRequest(work.request), error);
  return describeFailure(work, error);
}

/**
 * The size of all JSON Lines files of a run. It grows with steps, attacked examples and points of a
 * figure.
 */
async function measureProgressBytes(folder: string): Promise<number> {
  const names = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith(".jsonl"));
  const sizes = await Promise.all(names.map((name) => stat(join(folder, name)).then(({ size }) => size)));
  return sizes.reduce((sum, size) => sum + size, 0);
}
