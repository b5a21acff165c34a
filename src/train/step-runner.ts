import { keep, scope } from "../tensor/index.js";
import { type HostBatch, toBatch } from "./batch-transfer.js";
import { cudaGraphRunner } from "./cuda-graph-runner.js";
import { oomRetryRunner } from "./oom-retry-runner.js";
import { applyImmediately, runOptimizerStep, type StepScalars } from "./optimizer-step.js";
import { CudaRandomStreams } from "./random-streams.js";
import type { TrainingContext } from "./training-context.js";

/**
 * Runs optimizer steps: it takes host batches, updates the parameters and returns numbers to log.
 */
export interface StepRunner {
  runStep(stepIndex: number, batches: readonly HostBatch[]): StepScalars;
  /** Frees what the runner keeps between steps. */
  dispose(): void;
}

/** Creates the runner for the device of a training. */
export function createStepRunner(training: TrainingContext): StepRunner {
  const { streams, job } = training;
  const createRunner = (): StepRunner =>
    streams instanceof CudaRandomStreams && (job.cudaGraphs ?? true)
      ? cudaGraphRunner({ ...training, streams })
      : eagerRunner(training);
  // Processes that split their batches differently would no longer meet in the same collectives.
  const isSingle = (job.ranks?.size ?? 1) === 1;
  return job.deviceConfig.device === "cpu" || !isSingle ? createRunner() : oomRetryRunner(training, createRunner);
}

/** Runs every step eagerly. */
export function eagerRunner(training: TrainingContext): StepRunner {
  return {
    runStep: (stepIndex, hostBatches) =>
      scope(() => {
        const batches = hostBatches.map((host) => toBatch(training, host));
        return keep(runOptimizerStep(training, stepIndex, batches, applyImmediately));
      }),
    dispose() {},
  };
}
