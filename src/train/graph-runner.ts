import { capture, free, type Graph, keep, noGrad, scope } from "../tensor/index.js";
import { DeviceBuffers, hostArrays } from "./device-buffers.js";
import type { HostBatch, HostTensor } from "./layer.js";
import { type Apply, applyNow, type Runner, type RunnerContext, runUpdate, type Scalars } from "./runner.js";
import type { Entered, StateStreams } from "./streams.js";

/** What updates of one shape share: the places of their batches, and their work once it is recorded. */
interface Shape {
  readonly buffers: readonly DeviceBuffers[];
  /** The random streams that its work enters; null before its first update. */
  entered: readonly Entered[] | null;
  recorded: { readonly graph: Graph; readonly output: Scalars } | null;
}

/** What is recorded changes nothing yet: where memory ends, it can be done over. */
const recordOnly: Apply = (change) => change();

/**
 * Runs updates as CUDA graphs. The first update of a shape (rows, length, phase of the methods) runs operator by operator and is a
 * real update of the run; the second is recorded and replayed; from then on the shape is one launch. Both ways draw from the same
 * random streams, so the way an update ran leaves no trace in the results.
 */
export function graphRunner(context: RunnerContext & { readonly streams: StateStreams }): Runner {
  const { run, stack, streams } = context;
  const shapes = new Map<string, Shape>();

  function shapeOf(number: number, hosts: readonly HostBatch[], batches: readonly ReadonlyMap<string, HostTensor>[]): Shape {
    const sizes = batches.map((arrays) => [...arrays].map(([name, { shape }]) => [name, shape]));
    const parts = hosts.map(({ part }) => part);
    const key = JSON.stringify([stack.phase(number), parts, sizes]);
    const known = shapes.get(key);
    if (known) return known;
    const shape: Shape = { buffers: batches.map((arrays) => new DeviceBuffers(arrays, run.device)), entered: null, recorded: null };
    shapes.set(key, shape);
    return shape;
  }

  return {
    update: (number, hosts) =>
      scope(() => {
        const arrays = hosts.map((host) => hostArrays(host, stack));
        const shape = shapeOf(number, hosts, arrays);
        const batches = hosts.map((host, i) =>
          (shape.buffers[i] as DeviceBuffers).fill(host, arrays[i] as ReadonlyMap<string, HostTensor>),
        );
        const base = number * run.settings.accumulate;
        const work = (apply: Apply): Scalars => runUpdate(context, number, batches, apply);
        if (!shape.entered) {
          const { result, entered } = streams.watch(base, () => work(applyNow));
          shape.entered = entered;
          return keep(result);
        }
        if (!shape.recorded) {
          const states = shape.entered.map(({ state }) => state);
          const { graph, result } = streams.watch(base, () => capture(states, () => keep(scope(() => work(recordOnly))))).result;
          shape.recorded = { graph, output: result };
        }
        streams.seed(base, shape.entered);
        const { graph, output } = shape.recorded;
        graph.replay();
        return keep({ names: output.names, values: noGrad(() => output.values.clone()) });
      }),
    dispose() {
      for (const { recorded, buffers } of shapes.values()) {
        recorded?.graph.free();
        if (recorded) free(recorded.output.values);
        for (const each of buffers) each.dispose();
      }
    },
  };
}
