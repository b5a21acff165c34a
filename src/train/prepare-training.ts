import { AdamW } from "../nn/index.js";
import { Rng } from "../tensor/index.js";
import { createEpochBatches } from "./batches.js";
import { cudaGraphRunner } from "./cuda-graph-runner.js";
import type { TrainingJob } from "./job.js";
import { MethodStack } from "./method-stack.js";
import { oomRetryRunner } from "./oom-retry-runner.js";
import { CudaRandomStreams, createRandomStreams } from "./random-streams.js";
import { createTrainingContext, type OwnedTrainingContext } from "./run.js";
import { eagerRunner, type RunnerContext, type StepRunner } from "./runner.js";
import { createParameterGroups } from "./standard-fine-tuning.js";
import type { NamedTensors } from "./training-method.js";

/** A run that is ready for its first update: layers prepared, optimiser made. */
export interface PreparedTraining {
  readonly run: OwnedTrainingContext;
  readonly context: RunnerContext;
  readonly runner: StepRunner;
  readonly stepsPerEpoch: number;
  /** The batches of each update of an epoch. */
  getEpochBatches(epoch: number): Int32Array[][];
  close(): void;
}

/** Opens all that updates need; `restored` are the layers' own tensors from a checkpoint. */
export async function prepareTraining(job: TrainingJob, restored: NamedTensors | null): Promise<PreparedTraining> {
  const { model, task, settings, deviceConfig: placement } = job;
  const stack = new MethodStack(job.methods);
  stack.checkCompatibility({ model, task, settings, computeDtype: placement.computeDtype });
  const rng = new Rng(job.seed);
  const getEpochBatches = (epoch: number): Int32Array[][] => {
    const batches = createEpochBatches(
      job.train,
      task.labels.length,
      settings.batchSampler,
      settings.batchSize,
      rng.fork("epoch", epoch),
    );
    const count = Math.ceil(batches.length / settings.gradientAccumulationSteps);
    return Array.from({ length: count }, (_, i) =>
      batches.slice(i * settings.gradientAccumulationSteps, (i + 1) * settings.gradientAccumulationSteps),
    );
  };
  const stepsPerEpoch = getEpochBatches(0).length;
  const updates = Math.max(1, Math.round(settings.epochs * stepsPerEpoch));
  const streams = createRandomStreams(rng, placement.device);
  const run = await createTrainingContext(job, stack, streams, rng, updates, restored);
  const { adamBeta1: beta1, adamBeta2: beta2, adamEpsilon: epsilon } = settings;
  const groups = createParameterGroups(run.parameters, new Set(model.weights.keys()), settings);
  let optimizer: AdamW;
  try {
    optimizer = new AdamW(run.parameters, groups, { beta1, beta2, epsilon });
  } catch (error) {
    run.close();
    throw error;
  }
  const context: RunnerContext = { run, stack, streams, optimizer, computeDtype: placement.computeDtype };
  const createRunner = (): StepRunner =>
    streams instanceof CudaRandomStreams && (job.cudaGraphs ?? true)
      ? cudaGraphRunner({ ...context, streams })
      : eagerRunner(context);
  const runner = placement.device === "cpu" ? createRunner() : oomRetryRunner(run, createRunner);
  return {
    run,
    context,
    runner,
    stepsPerEpoch,
    getEpochBatches,
    close() {
      runner.dispose();
      optimizer.dispose();
      run.close();
    },
  };
}
