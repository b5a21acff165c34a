import { createHash } from "node:crypto";
import { mkdir, readdir, realpath } from "node:fs/promises";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { UserError } from "../errors.js";
import { createFileError, exists, readJson, writeFileAtomic } from "../files.js";
import { validate } from "../validate.js";
import { type SweepPlan, sweepFiles } from "./plan.js";
import type { SweepCallbacks, WorkItemFailure } from "./run-local.js";
import type { SlurmSettings } from "./schema.js";
import { listQueuedTasks, type QueuedTask, readMaxArraySize, readTaskState, submitJob } from "./slurm-commands.js";
import { createJobScript, createSbatchOptions } from "./slurm-script.js";
import {
  formatWorkItem,
  isWorkItemDone,
  listWorkItems,
  readFailure,
  stages,
  type WorkItem,
  workItemSchema,
} from "./work-item.js";

/** A list of units, one for each task of an array: all that is ever written about a submission. */
const workItemListSchema = z.object({ out: z.string(), units: z.array(workItemSchema), job: z.string().nullable() });
export type WorkItemList = z.output<typeof workItemListSchema>;

export interface SlurmOptions {
  readonly settings: SlurmSettings;
  /** Tasks at once, for each array; null: as many as the cluster gives. */
  readonly jobs: number | null;
  readonly callbacks?: SweepCallbacks;
  /** Aborted: the jobs are left to themselves. */
  readonly stop?: AbortSignal;
  readonly pollMilliseconds?: number;
}

export async function readWorkItemList(path: string): Promise<WorkItemList> {
  return validate(workItemListSchema, await readJson(path, "the list of a job's units"), path);
}

/** Runs what is left of a sweep on the cluster until nothing more can be done; what then has no results has failed. */
export async function runOnSlurm(out: string, plan: SweepPlan, options: SlurmOptions): Promise<WorkItemFailure[]> {
  const attempted = new Set<string>();
  await submitSweep(out, plan, options, attempted);
  let failures = await followSweep(out, plan, options);
  // What an earlier submission left behind, or began before its training had ended, is done once more.
  while (failures.length > 0 && !options.stop?.aborted) {
    if ((await submitSweep(out, plan, options, attempted)) === 0) break;
    failures = await followSweep(out, plan, options);
  }
  return failures;
}

/**
 * Submits all that is neither done, nor in the queue, nor among those attempted, each stage to begin when the one before has ended.
 * Returns how many tasks that were.
 */
export async function submitSweep(
  out: string,
  plan: SweepPlan,
  options: SlurmOptions,
  attempted = new Set<string>(),
): Promise<number> {
  const { settings, jobs, callbacks } = options;
  const queue = await openSlurmQueue(out);
  const workItems = listWorkItems(plan);
  const size = readMaxArraySize();
  let submitted = 0;
  let before: string[] = [];
  for (const stage of stages) {
    const waiting = new Map(queue.listTasks().map((task) => [formatWorkItem(task.unit), task.job]));
    const left: WorkItem[] = [];
    for (const workItem of workItems[stage]) {
      const name = formatWorkItem(workItem);
      if (waiting.has(name) || attempted.has(name) || (await isWorkItemDone(out, plan, workItem))) continue;
      attempted.add(name);
      left.push(workItem);
    }
    const after = before;
    const ours = workItems[stage].flatMap((workItem) => waiting.get(formatWorkItem(workItem)) ?? []);
    for (let start = 0; start < left.length; start += size) {
      ours.push(await queue.submit(left.slice(start, start + size), settings, jobs, after));
      submitted += Math.min(size, left.length - start);
    }
    if (ours.length > 0) before = [...new Set(ours)];
  }
  callbacks?.onWarning?.(`submitted ${submitted} tasks; they go on by themselves whatever becomes of this process`);
  return submitted;
}

/** Reasons to wait that pass by themselves. */
const normalPendingReasons = new Set([
  "None",
  "Priority",
  "Resources",
  "Dependency",
  "JobArrayTaskLimit",
  "BeginTime",
  "Cleaning",
]);

/** Waits until none of the sweep's tasks is in the queue; returns what then has no results. */
async function followSweep(out: string, plan: SweepPlan, options: SlurmOptions): Promise<WorkItemFailure[]> {
  const { callbacks, stop, pollMilliseconds = 5000 } = options;
  const queue = await openSlurmQueue(out);
  const workItems = listWorkItems(plan);
  const seen = new Set<string>();
  const reasons = new Set(normalPendingReasons);
  for (const stage of stages) {
    const open = new Map(workItems[stage].map((workItem) => [formatWorkItem(workItem), workItem]));
    const settle = async (queued: ReadonlySet<string>): Promise<void> => {
      for (const [name, workItem] of open) {
        if (queued.has(name) || !(await isWorkItemDone(out, plan, workItem))) continue;
        open.delete(name);
        callbacks?.onItemEnd?.(workItem, { state: "done" });
      }
    };
    if (open.size > 0) callbacks?.onStageStart?.(stage, workItems[stage], 0);
    for (;;) {
      const tasks = queue.listTasks();
      for (const { state, reason, unit: workItem } of tasks) {
        if (state === "PENDING" && !reasons.has(reason)) {
          reasons.add(reason);
          callbacks?.onWarning?.(
            `Slurm holds ${formatWorkItem(workItem)} back: ${reason}; it may ask for more than the partition has`,
          );
        }
        if (state !== "RUNNING" || seen.has(formatWorkItem(workItem)) || !open.has(formatWorkItem(workItem))) continue;
        seen.add(formatWorkItem(workItem));
        callbacks?.onItemStart?.(workItem);
      }
      const queued = new Set(tasks.map(({ unit: workItem }) => formatWorkItem(workItem)));
      await settle(queued);
      if (stop?.aborted) return [];
      if (![...open.keys()].some((name) => queued.has(name))) break;
      await delay(pollMilliseconds);
    }
  }
  const failures = await findFailures(out, plan, queue);
  if (failures.length === 0) return failures;
  // A shared file system may show the last files a moment later than the queue forgets their jobs.
  await delay(pollMilliseconds);
  return findFailures(out, plan, queue);
}

async function findFailures(out: string, plan: SweepPlan, queue: SlurmQueue): Promise<WorkItemFailure[]> {
  const failures: WorkItemFailure[] = [];
  const workItems = listWorkItems(plan);
  for (const workItem of stages.flatMap((stage) => workItems[stage])) {
    if (await isWorkItemDone(out, plan, workItem)) continue;
    const failure = await readFailure(out, plan, workItem);
    if (failure === "blocked") continue;
    const task = queue.findLatest(workItem);
    const ended = task && readTaskState(task.job, task.index);
    const error = failure?.error ?? `it left the queue without results${ended ? ` (${ended})` : ""}`;
    failures.push({
      workItem: workItem,
      error,
      command: failure?.command ?? `temper work ${task?.list ?? "LIST"} ${task?.index ?? 0}`,
    });
  }
  return failures;
}

interface SlurmQueue {
  /** What is in the queue now. */
  listTasks(): (QueuedTask & { unit: WorkItem })[];
  /** Where a unit was submitted last. */
  findLatest(workItem: WorkItem): { job: string; index: number; list: string } | null;
  submit(
    workItems: readonly WorkItem[],
    settings: SlurmSettings,
    jobs: number | null,
    after: readonly string[],
  ): Promise<string>;
}

/** The jobs of a sweep's folder: they bear its hash and their list's number as names, so nothing else must be remembered. */
async function openSlurmQueue(out: string): Promise<SlurmQueue> {
  const folder = join(resolve(out), sweepFiles.slurm);
  const hash = createHash("sha256")
    .update(await realpath(out))
    .digest("hex")
    .slice(0, 8);
  const prefix = `temper-${hash}-`;
  const getListPath = (number: number): string => join(folder, `${number}.json`);
  const lists = new Map<number, WorkItemList>();
  const numbers = (await exists(folder))
    ? (await readdir(folder)).flatMap((name) => /^(\d+)\.json$/.exec(name)?.[1] ?? [])
    : [];
  for (const number of numbers.map(Number).sort((a, b) => a - b))
    lists.set(number, await readWorkItemList(getListPath(number)));
  return {
    listTasks: () =>
      listQueuedTasks(prefix).flatMap((task) => {
        const workItem = lists.get(Number(task.name.slice(prefix.length)))?.units[task.index];
        return workItem ? [{ ...task, unit: workItem }] : [];
      }),
    findLatest(workItem) {
      for (const [number, { units: workItems, job }] of [...lists].reverse()) {
        const index = workItems.findIndex((each) => formatWorkItem(each) === formatWorkItem(workItem));
        if (index >= 0 && job !== null) return { job, index, list: getListPath(number) };
      }
      return null;
    },
    async submit(workItems, settings, jobs, after) {
      const number = Math.max(0, ...lists.keys()) + 1;
      const list: WorkItemList = { out: resolve(out), units: [...workItems], job: null };
      const script = join(folder, `${number}.sh`);
      await mkdir(folder, { recursive: true }).catch((error: unknown) => {
        throw createFileError(error, folder, "make the folder");
      });
      // The list comes first: a job that begins at once finds it.
      await writeFileAtomic(getListPath(number), `${JSON.stringify(list)}\n`);
      await writeFileAtomic(script, createJobScript(getListPath(number)));
      const log = join(folder, "%A_%a.log");
      const job = submitJob([
        ...createSbatchOptions(settings, { name: `${prefix}${number}`, tasks: workItems.length, jobs, log, after }),
        script,
      ]);
      const known = { ...list, job };
      await writeFileAtomic(getListPath(number), `${JSON.stringify(known)}\n`);
      lists.set(number, known);
      return job;
    },
  };
}

/** The unit of a task of an array. */
export async function readWorkItem(list: string, index: number): Promise<{ out: string; unit: WorkItem }> {
  const { out, units: workItems } = await readWorkItemList(list);
  const workItem = workItems[index];
  if (!workItem) throw new UserError(`${list}: it has ${workItems.length} entries, received index ${index}`);
  return { out, unit: workItem };
}
