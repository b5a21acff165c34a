import { keep, scope } from "../tensor/index.js";
import type { HostBatch } from "./batch.js";
import { toBatch } from "./batch-transfer.js";
import { applyImmediately, runOptimizerStep, type StepScalars } from "./optimizer-step.js";
import type { ActiveTraining } from "./training-context.js";

/** Runs optimizer steps on host batches and returns numbers to log. */
export interface StepRunner {
  runStep(stepIndex: number, batches: readonly HostBatch[]): StepScalars;
  dispose(): void;
}

export function eagerRunner(training: ActiveTraining): StepRunner {
  return {
    runStep: (stepIndex, hostBatches) =>
      scope(() => {
        const batches = hostBatches.map((host) => toBatch(training.job, host));
        return keep(runOptimizerStep(training, stepIndex, batches, applyImmediately));
      }),
    dispose() {},
  };
}
