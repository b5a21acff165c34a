import { availableParallelism } from "node:os";
import { listVisibleGpus } from "./gpus.js";
import type { SweepPlan } from "./plan.js";
import {
  isWorkItemDone,
  listWorkItems,
  runWorkItem,
  type Stage,
  stages,
  type WorkItem,
  type WorkItemResult,
} from "./work-item.js";

/** Told of what happens to the units of a sweep, wherever they are worked on. */
export interface SweepCallbacks {
  /** A stage begins: its units, and how many were done before. */
  onStageStart?(stage: Stage, workItems: readonly WorkItem[], done: number): void;
  onItemStart?(workItem: WorkItem): void;
  onItemEnd?(workItem: WorkItem, end: WorkItemResult): void;
  onWarning?(message: string): void;
}

/** A unit that did not come to its end. */
export interface WorkItemFailure {
  readonly workItem: WorkItem;
  readonly error: string;
  readonly command: string;
}

export interface LocalOptions {
  /** Units at once; null: one a GPU, or one where there is none. */
  readonly jobs: number | null;
  /** Aborted: what runs is told to save and stop, and nothing more begins. */
  readonly stop?: AbortSignal;
  /** Aborted: what runs is ended. */
  readonly kill?: AbortSignal;
  readonly callbacks?: SweepCallbacks;
  readonly program?: readonly string[];
}

/** Works on all that is left of a sweep, in processes of this machine. One that fails leaves the others alone. */
export async function runLocally(out: string, plan: SweepPlan, options: LocalOptions): Promise<WorkItemFailure[]> {
  const { stop, callbacks } = options;
  const environments = createProcessEnvironments(plan, options.jobs);
  const failures: WorkItemFailure[] = [];
  const workItems = listWorkItems(plan);
  for (const stage of stages) {
    const left: WorkItem[] = [];
    for (const workItem of workItems[stage]) if (!(await isWorkItemDone(out, plan, workItem))) left.push(workItem);
    if (workItems[stage].length > 0)
      callbacks?.onStageStart?.(stage, workItems[stage], workItems[stage].length - left.length);
    const work = async (environment: Readonly<Record<string, string>>): Promise<void> => {
      for (let workItem = left.shift(); workItem !== undefined && !stop?.aborted; workItem = left.shift()) {
        callbacks?.onItemStart?.(workItem);
        const end = await runWorkItem(out, plan, workItem, { ...options, environment });
        callbacks?.onItemEnd?.(workItem, end);
        if (end.state === "failed") failures.push({ workItem: workItem, error: end.error, command: end.command });
      }
    };
    await Promise.all(environments.map(work));
    if (stop?.aborted) break;
  }
  return failures;
}

/** The environment of each process that may run at once: a GPU of its own, or its share of the cores. */
function createProcessEnvironments(plan: SweepPlan, jobs: number | null): Record<string, string>[] {
  const onCpu = Object.values(plan.runs).every((config) => config.device === "cpu");
  const gpus = onCpu ? [] : listVisibleGpus();
  const count = jobs ?? Math.max(1, gpus.length);
  return Array.from({ length: count }, (_, slot): Record<string, string> => {
    if (gpus.length > 0) return { CUDA_VISIBLE_DEVICES: gpus[slot % gpus.length]! };
    if (count === 1 || process.env.OMP_NUM_THREADS) return {};
    return { OMP_NUM_THREADS: String(Math.max(1, Math.floor(availableParallelism() / count))) };
  });
}
