import { availableParallelism } from "node:os";
import { visibleGpus } from "./gpus.js";
import type { Plan } from "./plan.js";
import { isUnitDone, performUnit, type Stage, stages, type Unit, type UnitEnd, unitsOf } from "./unit.js";

/** Told of what happens to the units of a sweep, wherever they are worked on. */
export interface SweepWatcher {
  /** A stage begins: its units, and how many were done before. */
  onStage?(stage: Stage, units: readonly Unit[], done: number): void;
  onBegin?(unit: Unit): void;
  onEnd?(unit: Unit, end: UnitEnd): void;
  onNotice?(message: string): void;
}

/** A unit that did not come to its end. */
export interface Failure {
  readonly unit: Unit;
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
  readonly watch?: SweepWatcher;
  readonly program?: readonly string[];
}

/** Works on all that is left of a sweep, in processes of this machine. One that fails leaves the others alone. */
export async function runLocally(out: string, plan: Plan, options: LocalOptions): Promise<Failure[]> {
  const { stop, watch } = options;
  const slots = slotsOf(plan, options.jobs);
  const failures: Failure[] = [];
  const units = unitsOf(plan);
  for (const stage of stages) {
    const left: Unit[] = [];
    for (const unit of units[stage]) if (!(await isUnitDone(out, plan, unit))) left.push(unit);
    if (units[stage].length > 0) watch?.onStage?.(stage, units[stage], units[stage].length - left.length);
    const work = async (environment: Readonly<Record<string, string>>): Promise<void> => {
      for (let unit = left.shift(); unit !== undefined && !stop?.aborted; unit = left.shift()) {
        watch?.onBegin?.(unit);
        const end = await performUnit(out, plan, unit, { ...options, environment });
        watch?.onEnd?.(unit, end);
        if (end.state === "failed") failures.push({ unit, error: end.error, command: end.command });
      }
    };
    await Promise.all(slots.map(work));
    if (stop?.aborted) break;
  }
  return failures;
}

/** The environment of each process that may run at once: a GPU of its own, or its share of the cores. */
function slotsOf(plan: Plan, jobs: number | null): Record<string, string>[] {
  const onCpu = Object.values(plan.runs).every((config) => config.device === "cpu");
  const gpus = onCpu ? [] : visibleGpus();
  const count = jobs ?? Math.max(1, gpus.length);
  return Array.from({ length: count }, (_, slot): Record<string, string> => {
    if (gpus.length > 0) return { CUDA_VISIBLE_DEVICES: gpus[slot % gpus.length]! };
    if (count === 1 || process.env.OMP_NUM_THREADS) return {};
    return { OMP_NUM_THREADS: String(Math.max(1, Math.floor(availableParallelism() / count))) };
  });
}
