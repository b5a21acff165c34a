import { createHash } from "node:crypto";
import { mkdir, readdir, realpath } from "node:fs/promises";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { UserError } from "../errors.js";
import { exists, fileError, readJson, writeFileAtomic } from "../files.js";
import { validate } from "../validate.js";
import type { Failure, SweepWatcher } from "./local.js";
import { type Plan, sweepFiles } from "./plan.js";
import type { SlurmSettings } from "./schema.js";
import { endOf, largestArray, type QueuedTask, queuedTasks, submitJob } from "./slurm-commands.js";
import { jobScript, sbatchOptions } from "./slurm-script.js";
import { failureOf, isUnitDone, nameOf, stages, type Unit, unitSchema, unitsOf } from "./unit.js";

/** A list of units, one for each task of an array: all that is ever written about a submission. */
const listSchema = z.object({ out: z.string(), units: z.array(unitSchema), job: z.string().nullable() });
export type UnitList = z.output<typeof listSchema>;

export interface SlurmOptions {
  readonly settings: SlurmSettings;
  /** Tasks at once, for each array; null: as many as the cluster gives. */
  readonly jobs: number | null;
  readonly watch?: SweepWatcher;
  /** Aborted: the jobs are left to themselves. */
  readonly stop?: AbortSignal;
  readonly pollMilliseconds?: number;
}

export async function readUnitList(path: string): Promise<UnitList> {
  return validate(listSchema, await readJson(path, "the list of a job's units"), path);
}

/** Runs what is left of a sweep on the cluster until nothing more can be done; what then has no results has failed. */
export async function runOnSlurm(out: string, plan: Plan, options: SlurmOptions): Promise<Failure[]> {
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
export async function submitSweep(out: string, plan: Plan, options: SlurmOptions, attempted = new Set<string>()): Promise<number> {
  const { settings, jobs, watch } = options;
  const queue = await openQueue(out);
  const units = unitsOf(plan);
  const size = largestArray();
  let submitted = 0;
  let before: string[] = [];
  for (const stage of stages) {
    const waiting = new Map(queue.tasks().map((task) => [nameOf(task.unit), task.job]));
    const left: Unit[] = [];
    for (const unit of units[stage]) {
      const name = nameOf(unit);
      if (waiting.has(name) || attempted.has(name) || (await isUnitDone(out, plan, unit))) continue;
      attempted.add(name);
      left.push(unit);
    }
    const after = before;
    const ours = units[stage].flatMap((unit) => waiting.get(nameOf(unit)) ?? []);
    for (let start = 0; start < left.length; start += size) {
      ours.push(await queue.submit(left.slice(start, start + size), settings, jobs, after));
      submitted += Math.min(size, left.length - start);
    }
    if (ours.length > 0) before = [...new Set(ours)];
  }
  watch?.onNotice?.(`submitted ${submitted} tasks; they go on by themselves whatever becomes of this process`);
  return submitted;
}

/** Reasons to wait that pass by themselves. */
const usualReasons = new Set(["None", "Priority", "Resources", "Dependency", "JobArrayTaskLimit", "BeginTime", "Cleaning"]);

/** Waits until none of the sweep's tasks is in the queue; returns what then has no results. */
async function followSweep(out: string, plan: Plan, options: SlurmOptions): Promise<Failure[]> {
  const { watch, stop, pollMilliseconds = 5000 } = options;
  const queue = await openQueue(out);
  const units = unitsOf(plan);
  const seen = new Set<string>();
  const reasons = new Set(usualReasons);
  for (const stage of stages) {
    const open = new Map(units[stage].map((unit) => [nameOf(unit), unit]));
    const settle = async (queued: ReadonlySet<string>): Promise<void> => {
      for (const [name, unit] of open) {
        if (queued.has(name) || !(await isUnitDone(out, plan, unit))) continue;
        open.delete(name);
        watch?.onEnd?.(unit, { state: "done" });
      }
    };
    if (open.size > 0) watch?.onStage?.(stage, units[stage], 0);
    for (;;) {
      const tasks = queue.tasks();
      for (const { state, reason, unit } of tasks) {
        if (state === "PENDING" && !reasons.has(reason)) {
          reasons.add(reason);
          watch?.onNotice?.(`Slurm holds ${nameOf(unit)} back: ${reason}; it may ask for more than the partition has`);
        }
        if (state !== "RUNNING" || seen.has(nameOf(unit)) || !open.has(nameOf(unit))) continue;
        seen.add(nameOf(unit));
        watch?.onBegin?.(unit);
      }
      const queued = new Set(tasks.map(({ unit }) => nameOf(unit)));
      await settle(queued);
      if (stop?.aborted) return [];
      if (![...open.keys()].some((name) => queued.has(name))) break;
      await delay(pollMilliseconds);
    }
  }
  const failures = await failuresOf(out, plan, queue);
  if (failures.length === 0) return failures;
  // A shared file system may show the last files a moment later than the queue forgets their jobs.
  await delay(pollMilliseconds);
  return failuresOf(out, plan, queue);
}

async function failuresOf(out: string, plan: Plan, queue: Queue): Promise<Failure[]> {
  const failures: Failure[] = [];
  const units = unitsOf(plan);
  for (const unit of stages.flatMap((stage) => units[stage])) {
    if (await isUnitDone(out, plan, unit)) continue;
    const failure = await failureOf(out, plan, unit);
    if (failure === "blocked") continue;
    const task = queue.latest(unit);
    const ended = task && endOf(task.job, task.index);
    const error = failure?.error ?? `it left the queue without results${ended ? ` (${ended})` : ""}`;
    failures.push({ unit, error, command: failure?.command ?? `temper work ${task?.list ?? "LIST"} ${task?.index ?? 0}` });
  }
  return failures;
}

interface Queue {
  /** What is in the queue now. */
  tasks(): (QueuedTask & { unit: Unit })[];
  /** Where a unit was submitted last. */
  latest(unit: Unit): { job: string; index: number; list: string } | null;
  submit(units: readonly Unit[], settings: SlurmSettings, jobs: number | null, after: readonly string[]): Promise<string>;
}

/** The jobs of a sweep's folder: they bear its hash and their list's number as names, so nothing else must be remembered. */
async function openQueue(out: string): Promise<Queue> {
  const folder = join(resolve(out), sweepFiles.slurm);
  const hash = createHash("sha256")
    .update(await realpath(out))
    .digest("hex")
    .slice(0, 8);
  const prefix = `temper-${hash}-`;
  const pathOf = (number: number): string => join(folder, `${number}.json`);
  const lists = new Map<number, UnitList>();
  const numbers = (await exists(folder)) ? (await readdir(folder)).flatMap((name) => /^(\d+)\.json$/.exec(name)?.[1] ?? []) : [];
  for (const number of numbers.map(Number).sort((a, b) => a - b)) lists.set(number, await readUnitList(pathOf(number)));
  return {
    tasks: () =>
      queuedTasks(prefix).flatMap((task) => {
        const unit = lists.get(Number(task.name.slice(prefix.length)))?.units[task.index];
        return unit ? [{ ...task, unit }] : [];
      }),
    latest(unit) {
      for (const [number, { units, job }] of [...lists].reverse()) {
        const index = units.findIndex((each) => nameOf(each) === nameOf(unit));
        if (index >= 0 && job !== null) return { job, index, list: pathOf(number) };
      }
      return null;
    },
    async submit(units, settings, jobs, after) {
      const number = Math.max(0, ...lists.keys()) + 1;
      const list: UnitList = { out: resolve(out), units: [...units], job: null };
      const script = join(folder, `${number}.sh`);
      await mkdir(folder, { recursive: true }).catch((error: unknown) => {
        throw fileError(error, folder, "make the folder");
      });
      // The list comes first: a job that begins at once finds it.
      await writeFileAtomic(pathOf(number), `${JSON.stringify(list)}\n`);
      await writeFileAtomic(script, jobScript(pathOf(number)));
      const log = join(folder, "%A_%a.log");
      const job = submitJob([...sbatchOptions(settings, { name: `${prefix}${number}`, tasks: units.length, jobs, log, after }), script]);
      const known = { ...list, job };
      await writeFileAtomic(pathOf(number), `${JSON.stringify(known)}\n`);
      lists.set(number, known);
      return job;
    },
  };
}

/** The unit of a task of an array. */
export async function unitOf(list: string, index: number): Promise<{ out: string; unit: Unit }> {
  const { out, units } = await readUnitList(list);
  const unit = units[index];
  if (!unit) throw new UserError(`${list}: it has ${units.length} entries, received index ${index}`);
  return { out, unit };
}
