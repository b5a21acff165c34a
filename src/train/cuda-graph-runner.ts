import { captureGraph, free, type CudaGraph, keep, noGrad, scope } from "../tensor/index.js";
import { collectHostArrays, DeviceBuffers } from "./batch-transfer.js";
import type { CudaRandomStreams, Entered } from "./random-streams.js";
import {
  type ApplyUpdate,
  applyImmediately,
  type RunnerContext,
  runOptimizerStep,
  type StepRunner,
  type StepScalars,
} from "./runner.js";
import type { HostBatch, HostTensor } from "./training-method.js";

/** What updates of one shape share: the places of their batches, and their work once it is recorded. */
interface GraphBucket {
  readonly buffers: readonly DeviceBuffers[];
  /** The random streams that its work enters; null before its first update. */
  enteredStreams: readonly Entered[] | null;
  captured: { readonly graph: CudaGraph; readonly output: StepScalars } | null;
}

/** What is recorded changes nothing yet: where memory ends, it can be done over. */
const applyDuringCapture: ApplyUpdate = (change) => change();

/**
 * Runs updates as CUDA graphs. The first update of a shape (rows, length, phase of the methods) runs operator by operator and is a
 * real update of the run; the second is recorded and replayed; from then on the shape is one launch. Both ways draw from the same
 * random streams, so the way an update ran leaves no trace in the results.
 */
export function cudaGraphRunner(context: RunnerContext & { readonly streams: CudaRandomStreams }): StepRunner {
  const { run, stack, streams } = context;
  const buckets = new Map<string, GraphBucket>();

  function getOrCreateBucket(
    number: number,
    hosts: readonly HostBatch[],
    batches: readonly ReadonlyMap<string, HostTensor>[],
  ): GraphBucket {
    const sizes = batches.map((arrays) => [...arrays].map(([name, { shape }]) => [name, shape]));
    const parts = hosts.map(({ microBatchIndex: part }) => part);
    const key = JSON.stringify([stack.graphKey(number), parts, sizes]);
    const known = buckets.get(key);
    if (known) return known;
    const shape: GraphBucket = {
      buffers: batches.map((arrays) => new DeviceBuffers(arrays, run.device)),
      enteredStreams: null,
      captured: null,
    };
    buckets.set(key, shape);
    return shape;
  }

  return {
    runStep: (number, hosts) =>
      scope(() => {
        const arrays = hosts.map((host) => collectHostArrays(host, stack));
        const shape = getOrCreateBucket(number, hosts, arrays);
        const batches = hosts.map((host, i) =>
          (shape.buffers[i] as DeviceBuffers).fill(host, arrays[i] as ReadonlyMap<string, HostTensor>),
        );
        const base = number * run.settings.gradientAccumulationSteps;
        const work = (apply: ApplyUpdate): StepScalars => runOptimizerStep(context, number, batches, apply);
        if (!shape.enteredStreams) {
          const { result, entered } = streams.recordEntered(base, () => work(applyImmediately));
          shape.enteredStreams = entered;
          return keep(result);
        }
        if (!shape.captured) {
          const states = shape.enteredStreams.map(({ state }) => state);
          const { graph, result } = streams.recordEntered(base, () =>
            captureGraph(states, () => keep(scope(() => work(applyDuringCapture)))),
          ).result;
          shape.captured = { graph, output: result };
        }
        streams.seed(base, shape.enteredStreams);
        const { graph, output } = shape.captured;
        graph.replay();
        return keep({ names: output.names, values: noGrad(() => output.values.clone()) });
      }),
    dispose() {
      for (const { captured: recorded, buffers } of buckets.values()) {
        recorded?.graph.free();
        if (recorded) free(recorded.output.values);
        for (const each of buffers) each.dispose();
      }
    },
  };
}
