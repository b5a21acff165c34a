import { createWorkerEnvironments, Worker, type WorkerSettings, type WorkSignals } from "../jobs/worker-process.js";
import { runWorkItem, type WorkFailure } from "./run-work.js";
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
      readonly onEvent?: SweepCallbacks["onEvent"];
      readonly isCpuOnly: boolean;
    },
): Promise<WorkItemFailure[]> {
  const { stop, kill, onEvent, jobs, isCpuOnly, ...settings } = options;
  const workers = createWorkerEnvironments(isCpuOnly, jobs).map(
    (environment) => new Worker({ ...settings, environment }),
  );
  try {
    return await executePhases(out, plan, workers, { stop, kill, onEvent });
  } finally {
    await Promise.all(workers.map((worker) => worker.close()));
  }
}

async function executePhases(
  out: string,
  plan: SweepPlan,
  workers: readonly Worker[],
  { onEvent, ...signals }: WorkSignals & Pick<SweepCallbacks, "onEvent">,
): Promise<WorkItemFailure[]> {
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
    const takeReadyItem = (): WorkItem | undefined => {
      for (const [item, neededRuns] of waiting)
        if (!neededRuns.some((run) => unfinishedRuns.has(run))) return waiting.delete(item) ? item : undefined;
      return undefined;
    };
    const execute = async (item: WorkItem, worker: Worker): Promise<void> => {
      onEvent?.({ type: "item-start", item });
      const result = await runWorkItem(out, plan, item, worker, signals);
      onEvent?.({ type: "item-end", item, result });
      if (result.state === "failed") failures.push({ item, ...result });
      if (item.kind === "train") unfinishedRuns.delete(item.run);
    };
    const work = async (worker: Worker): Promise<void> => {
      while (waiting.size > 0 && !stop?.aborted) {
        const item = takeReadyItem();
        // Every other item waits for a run that another worker trains now.
        if (item === undefined) await Promise.race(running);
        else {
          const execution = execute(item, worker);
          running.add(execution);
          await execution.finally(() => running.delete(execution));
        }
      }
    };
    await Promise.all(workers.map(work));
    if (stop?.aborted) break;
  }
  return failures;
}
