import { noGrad } from "./autograd.js";
import { empty } from "./create.js";
import { allocatePinned } from "./graph.js";
import { nativeCuda } from "./native.js";
import { free, keep } from "./scope.js";
import type { Tensor } from "./tensor.js";
import type { Device, DType } from "./types.js";

/** Numbers on the host: a typed array and its shape. Bytes are booleans. */
export interface HostTensor {
  readonly values: Float32Array | Int32Array | Uint8Array;
  readonly shape: readonly number[];
}

/** The host fills one set of pinned buffers while the device copies from the other. */
const bufferCount = 2;
let eventCount = 0;
const idleEvents: number[] = [];

/** Returns a CUDA event, a point in the GPU's queue that the host can wait for. */
export function acquireEvent(): number {
  return idleEvents.pop() ?? eventCount++;
}

/** Returns CUDA events for reuse, because their number is limited. */
export function releaseEvents(events: readonly number[]): void {
  idleEvents.push(...events);
}

/** Waits until the GPU has passed an event, while other work of the process goes on. */
export async function waitForEvent(event: number): Promise<void> {
  do await new Promise(setImmediate);
  while (!nativeCuda().eventQuery(event));
}

/** Device tensors at fixed addresses, with pinned host buffers, for arrays of the same shapes. */
export class StagingBuffers {
  readonly #entries = new Map<string, { readonly device: Tensor; readonly buffers: readonly Tensor[] }>();
  readonly #events = Array.from({ length: bufferCount }, acquireEvent);
  #fillCount = 0;

  constructor(arrays: ReadonlyMap<string, HostTensor>, device: Device) {
    noGrad(() => {
      for (const [name, { values, shape }] of arrays) {
        const dtype: DType =
          values instanceof Float32Array ? "float32" : values instanceof Int32Array ? "int64" : "bool";
        const buffers = Array.from({ length: bufferCount }, () => keep(allocatePinned(shape, dtype)));
        this.#entries.set(name, { device: keep(empty(shape, { dtype, device })), buffers });
      }
    });
  }

  /** Starts copying new values to the device. The host does not wait. */
  fill(arrays: ReadonlyMap<string, HostTensor>): void {
    const index = this.#fillCount++ % bufferCount;
    const cuda = nativeCuda();
    cuda.eventWait(this.#events[index] as number);
    for (const [name, { values }] of arrays) {
      const entry = this.#entries.get(name);
      if (!entry) throw new Error(`there is no staging buffer for ${name}`);
      entry.device.copy_((entry.buffers[index] as Tensor).write(values), true);
    }
    cuda.eventRecord(this.#events[index] as number);
  }

  get(name: string): Tensor | null {
    return this.#entries.get(name)?.device ?? null;
  }

  dispose(): void {
    free([...this.#entries.values()].flatMap(({ device, buffers }) => [device, ...buffers]));
    releaseEvents(this.#events);
  }
}
