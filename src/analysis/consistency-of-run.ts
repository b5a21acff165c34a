import { UserError } from "../errors.js";
import { jobOf, openRunConfig } from "../runs/open.js";
import { free } from "../tensor/index.js";
import { type ConsistencyData, consistencyAnalysis, observeConsistency, readConsistency } from "./consistency.js";
import type { AnalysedRun } from "./runs.js";
import type { Analysis } from "./write.js";

export interface ConsistencyOptions {
  /** How many first steps are told of, each. */
  readonly counts: readonly number[];
  readonly notice: (message: string) => void;
  readonly onStep?: (step: number, total: number) => void;
}

/** A run's own record of two dropouts where it has one; else its training is done over, as far as needed, and watched. */
export async function analyseConsistency(
  run: AnalysedRun,
  { counts, notice, onStep }: ConsistencyOptions,
): Promise<Analysis<ConsistencyData>> {
  const recorded = await readConsistency(run.folder);
  if (recorded) return consistencyAnalysis(run.label, recorded, counts);
  if (!run.config.train.dropout) throw new UserError(`${run.folder}: this run was trained without dropout, so there is nothing to compare`);
  const last = Math.min(run.results.steps, Math.max(...counts));
  notice(`the run kept no record of two dropouts: its first ${last} steps are trained again, and watched`);
  const opened = await openRunConfig(run.config, notice);
  try {
    const job = jobOf(opened, { folder: null, resume: false, stopAfter: last });
    return consistencyAnalysis(run.label, await observeConsistency(job, (step) => onStep?.(step, last)), counts);
  } finally {
    free(opened.model.weights);
  }
}
