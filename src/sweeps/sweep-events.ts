import type { TemperEvent } from "../base/events.js";
import type { SweepEstimate } from "./estimate.js";
import type { WorkItemResult } from "./run-work.js";
import type { SweepPlan } from "./schema.js";
import type { WorkItem, WorkPhase } from "./work-item.js";

export interface PlannedSweep {
  readonly out: string;
  readonly plan: SweepPlan;
  readonly unfinished: readonly string[];
  readonly estimate: SweepEstimate | null;
}

/** An event of a sweep, on this host or on a cluster. */
export type SweepEvent =
  | TemperEvent
  /** The cost of the unfinished runs, before the first one starts. */
  | { readonly type: "estimate"; readonly planned: PlannedSweep }
  /** The first request is about to be executed. From now on `signal` makes the runs save their work. */
  | { readonly type: "sweep-start" }
  /** A phase begins. `done` of its items were done before. */
  | { readonly type: "phase"; readonly phase: WorkPhase; readonly done: number }
  | { readonly type: "item-start"; readonly item: WorkItem }
  | { readonly type: "item-end"; readonly item: WorkItem; readonly result: WorkItemResult };

export interface SweepCallbacks {
  readonly onEvent?: ((event: SweepEvent) => void) | undefined;
  /** Abort it to let the runs save their work and stop. Slurm jobs are canceled. */
  readonly signal?: AbortSignal | undefined;
  /** Abort it to end the runs at once. */
  readonly killSignal?: AbortSignal | undefined;
}
