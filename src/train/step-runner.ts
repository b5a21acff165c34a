import {
  type CudaGraph,
  captureGraph,
  free,
  type HostTensor,
  keep,
  noGrad,
  StagingBuffers,
  scope,
} from "../tensor/index.js";
import type { HostBatch } from "./batch.js";
import { collectHostArrays, createBatch, toBatch } from "./batch-transfer.js";
import { runOptimizerStep, type StepScalars } from "./optimizer-step.js";
import { CudaRandomStreams, type EnteredStream } from "./random-streams.js";
import type { ActiveTraining } from "./training-context.js";

export interface StepRunner {
  runStep(stepIndex: number, batches: readonly HostBatch[]): StepScalars;
  dispose(): void;
}

export function createStepRunner(training: ActiveTraining): StepRunner {
  const { streams, job } = training;
  return streams instanceof CudaRandomStreams && (job.cudaGraphs ?? true)
    ? cudaGraphRunner({ ...training, streams })
    : eagerRunner(training);
}

export function eagerRunner(training: ActiveTraining): StepRunner {
  return {
    runStep: (stepIndex, hostBatches) =>
      scope(() => {
        const batches = hostBatches.map((host) => toBatch(training.job, host));
        return keep(runOptimizerStep(training, stepIndex, batches));
      }),
    dispose() {},
  };
}

/** Steps of one shape share input buffers, and the graph once it is captured. */
interface GraphBucket {
  readonly buffers: readonly StagingBuffers[];
  /** The random streams that a step enters; null before the first step. */
  enteredStreams: readonly EnteredStream[] | null;
  captured: { readonly graph: CudaGraph; readonly output: StepScalars } | null;
}

/**
 * Runs steps as CUDA graphs. The first step of each shape runs eagerly, the second is captured,
 * later ones are replayed, all with the same random streams and results.
 */
export function cudaGraphRunner(training: ActiveTraining & { readonly streams: CudaRandomStreams }): StepRunner {
  const { job, stack, streams } = training;
  const buckets = new Map<string, GraphBucket>();

  function getOrCreateBucket(stepIndex: number, arrays: readonly ReadonlyMap<string, HostTensor>[]): GraphBucket {
    const shapes = arrays.map((batch) => [...batch].map(([name, { shape }]) => [name, shape]));
    const key = JSON.stringify([stack.getGraphKey(stepIndex), shapes]);
    const known = buckets.get(key);
    if (known) return known;
    const buffers = arrays.map((batch) => new StagingBuffers(batch, job.deviceConfig.device));
    const bucket: GraphBucket = { buffers, enteredStreams: null, captured: null };
    buckets.set(key, bucket);
    return bucket;
  }

  return {
    runStep: (stepIndex, hostBatches) =>
      scope(() => {
        const arrays = hostBatches.map((host) => collectHostArrays(host, job));
        const bucket = getOrCreateBucket(stepIndex, arrays);
        const batches = hostBatches.map((host, i) => {
          const buffers = bucket.buffers[i]!;
          buffers.fill(arrays[i]!);
          return createBatch(host, (name) => buffers.get(name));
        });
        const firstBatchIndex = stepIndex * job.settings.gradientAccumulationSteps;
        const runStep = (): StepScalars => runOptimizerStep(training, stepIndex, batches);
        if (!bucket.enteredStreams) {
          const { result, entered } = streams.recordEntered(firstBatchIndex, runStep);
          bucket.enteredStreams = entered;
          return keep(result);
        }
        if (!bucket.captured) {
          const states = bucket.enteredStreams.map(({ state }) => state);
          const { graph, result } = streams.recordEntered(firstBatchIndex, () =>
            captureGraph(states, () => keep(scope(runStep))),
          ).result;
          bucket.captured = { graph, output: result };
        }
        streams.seed(firstBatchIndex, bucket.enteredStreams);
        const { graph, output } = bucket.captured;
        graph.replay();
        return keep({ names: output.names, values: noGrad(() => output.values.clone()) });
      }),
    dispose() {
      for (const { captured, buffers } of buckets.values()) {
        captured?.graph.free();
        if (captured) free(captured.output.values);
        for (const buffer of buffers) buffer.dispose();
      }
    },
  };
}
