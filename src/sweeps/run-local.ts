import {
  attackProcessesVariable,
  createWorkerEnvironments,
  Worker,
  type WorkerSettings,
  type WorkSignals,
} from "../jobs/worker-process.js";
import { forgetFailures, runWorkItem, type WorkFailure } from "./run-work.js";
import type { SweepPlan } from "./schema.js";
import type { SweepCallbacks } from "./sweep-events.js";
import { isWorkItemDone, listNeededRuns, listWorkByCell, type WorkItem } from "./work-item.js";

export type WorkItemFailure = WorkFailure & { readonly item: WorkItem };

/** Executes what is left of a sweep on this host. A failed item does not stop the others. */
export async function runLocally(
  out: string,
  plan: SweepPlan,
  options: Omit<WorkerSettings, "environment"> &
    WorkSignals & {
      /** Concurrent work items. Null: one per GPU, or one. */
      readonly jobs: number | null;
      /** Concurrent trainings on each GPU, or on the host. Default: any number. */
      readonly trainJobs?: number;
      /** Processes that share the texts of an attack. */
      readonly attackProcesses?: number;
      readonly onEvent?: SweepCallbacks["onEvent"];
      readonly isCpuOnly: boolean;
    },
): Promise<WorkItemFailure[]> {
  const { stop, kill, onEvent, jobs, trainJobs, attackProcesses = 1, isCpuOnly, ...settings } = options;
  const places = createWorkerEnvironments(isCpuOnly, jobs).map((environment) => {
    const shared = attackProcesses > 1 ? { [attackProcessesVariable]: String(attackProcesses) } : {};
    const worker = new Worker({ ...settings, environment: { ...environment, ...shared } });
    return { worker, gpu: environment.CUDA_VISIBLE_DEVICES ?? "" };
  });
  try {
    await forgetFailures(out, plan);
    return await executePhases(out, plan, places, { stop, kill, onEvent, trainJobs });
  } finally {
    await Promise.all(places.map(({ worker }) => worker.close()));
  }
}

async function executePhases(
  out: string,
  plan: SweepPlan,
  places: readonly { readonly worker: Worker; readonly gpu: string }[],
  options: WorkSignals & Pick<SweepCallbacks, "onEvent"> & { readonly trainJobs: number | undefined },
): Promise<WorkItemFailure[]> {
  const { onEvent, trainJobs = Number.POSITIVE_INFINITY, ...signals } = options;
  const { stop } = signals;
  const failures: WorkItemFailure[] = [];
  for (const phase of listWorkByCell(plan)) {
    const waiting = new Map<WorkItem, readonly string[]>();
    const unfinishedRuns = new Set<string>();
    for (const item of phase.items) {
      const neededRuns = listNeededRuns(plan, item);
      // A run that is still missing may change which run an evaluation is for.
      if (!neededRuns.some((run) => unfinishedRuns.has(run)) && (await isWorkItemDone(out, plan, item))) continue;
      waiting.set(item, neededRuns);
      if (item.kind === "train") unfinishedRuns.add(item.run);
    }
    onEvent?.({ type: "phase", phase, done: phase.items.length - waiting.size });
    const running = new Set<Promise<void>>();
    const trainings = new Map(places.map(({ gpu }) => [gpu, 0]));
    const takeReadyItem = (gpu: string): WorkItem | undefined => {
      for (const [item, neededRuns] of waiting) {
        const isReady = !neededRuns.some((run) => unfinishedRuns.has(run));
        const isPossible = item.kind !== "train" || trainings.get(gpu)! < trainJobs;
        if (isReady && isPossible) return waiting.delete(item) ? item : undefined;
      }
      return undefined;
    };
    const execute = async (item: WorkItem, { worker, gpu }: (typeof places)[number]): Promise<void> => {
      onEvent?.({ type: "item-start", item });
      const training = item.kind === "train" ? 1 : 0;
      trainings.set(gpu, trainings.get(gpu)! + training);
      const result = (await runWorkItem(out, plan, item, worker, signals))!;
      trainings.set(gpu, trainings.get(gpu)! - training);
      onEvent?.({ type: "item-end", item, result });
      if (result.state === "failed") failures.push({ item, ...result });
      if (item.kind === "train") unfinishedRuns.delete(item.run);
    };
    const work = async (place: (typeof places)[number]): Promise<void> => {
      while (waiting.size > 0 && !stop?.aborted) {
        const item = takeReadyItem(place.gpu);
        // Every other item waits for a run that another worker trains now.
        if (item === undefined) await Promise.race(running);
        else {
          const execution = execute(item, place);
          running.add(execution);
          await execution.finally(() => running.delete(execution));
        }
      }
    };
    await Promise.all(places.map(work));
    if (stop?.aborted) break;
  }
  return failures;
}
