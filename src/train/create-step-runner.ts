import { cudaGraphRunner } from "./cuda-graph-runner.js";
import { oomRetryRunner } from "./oom-retry-runner.js";
import { CudaRandomStreams } from "./random-streams.js";
import { eagerRunner, type StepRunner } from "./step-runner.js";
import type { ActiveTraining } from "./training-context.js";

export function createStepRunner(training: ActiveTraining): StepRunner {
  const { streams, job, ranks } = training;
  const createRunner = (): StepRunner =>
    streams instanceof CudaRandomStreams && (job.cudaGraphs ?? true)
      ? cudaGraphRunner({ ...training, streams })
      : eagerRunner(training);
  // A process that repeats a step alone would no longer meet the others in the same collectives.
  const isSingle = ranks.size === 1;
  return job.deviceConfig.device === "cpu" || !isSingle ? createRunner() : oomRetryRunner(training, createRunner);
}
