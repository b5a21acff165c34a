import { UserError } from "../errors.js";
import { createTrainingJob, prepareRun } from "../runs/prepare-run.js";
import { free } from "../tensor/index.js";
import { type ConsistencyData, createConsistencyAnalysis, observeConsistency, readConsistency } from "./consistency.js";
import type { AnalyzedRun } from "./load-runs.js";
import type { Analysis } from "./write-analysis.js";

export interface ConsistencyOptions {
  /** How many first steps are told of, each. */
  readonly stepCounts: readonly number[];
  readonly warn: (message: string) => void;
  readonly onStep?: (step: number, total: number) => void;
}

/** A run's own record of two dropouts where it has one; else its training is done over, as far as needed, and watched. */
export async function analyzeConsistency(
  run: AnalyzedRun,
  { stepCounts: counts, warn, onStep }: ConsistencyOptions,
): Promise<Analysis<ConsistencyData>> {
  const recorded = await readConsistency(run.folder);
  if (recorded) return createConsistencyAnalysis(run.label, recorded, counts);
  if (!run.config.train.dropout)
    throw new UserError(`${run.folder}: this run was trained without dropout, so there is nothing to compare`);
  const last = Math.min(run.results.steps, Math.max(...counts));
  warn(`the run kept no record of two dropouts: its first ${last} steps are trained again, and watched`);
  const preparedRun = await prepareRun(run.config, warn);
  try {
    const job = createTrainingJob(preparedRun, { folder: null, resume: false, maxSteps: last });
    return createConsistencyAnalysis(run.label, await observeConsistency(job, (step) => onStep?.(step, last)), counts);
  } finally {
    free(preparedRun.model.weights);
  }
}
