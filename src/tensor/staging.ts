import { noGrad } from "./autograd.js";
import { empty } from "./create.js";
import { allocatePinned } from "./graph.js";
import { nativeCuda } from "./native.js";
import { free, keep } from "./scope.js";
import type { Tensor } from "./tensor.js";
import type { Device, DType } from "./types.js";

/** Numbers on the host: a typed array and the shape it fills. Bytes are truth values. */
export interface HostTensor {
  readonly values: Float32Array | Int32Array | Uint8Array;
  readonly shape: readonly number[];
}

/** How many batches may be on their way: the host fills one set of page-locked buffers while the device copies from the other. */
const bufferCount = 2;
let events = 0;
const idleEvents: number[] = [];

/** A mark in the GPU's queue of work that the host can wait for. */
export function acquireEvent(): number {
  return idleEvents.pop() ?? events++;
}

/** Gives marks back: every evaluation of a long run makes some. */
export function releaseEvents(given: readonly number[]): void {
  idleEvents.push(...given);
}

/** Device tensors that keep their place, for arrays of fixed shapes that come again and again. */
export class StagingBuffers {
  readonly #places = new Map<string, { readonly device: Tensor; readonly buffers: readonly Tensor[] }>();
  readonly #events = Array.from({ length: bufferCount }, acquireEvent);
  #turn = 0;

  constructor(arrays: ReadonlyMap<string, HostTensor>, device: Device) {
    noGrad(() => {
      for (const [name, { values, shape }] of arrays) {
        const type: DType =
          values instanceof Float32Array ? "float32" : values instanceof Int32Array ? "int64" : "bool";
        const buffers = Array.from({ length: bufferCount }, () => keep(allocatePinned(shape, type)));
        this.#places.set(name, { device: keep(empty(shape, { dtype: type, device })), buffers });
      }
    });
  }

  /** Starts the copy of new values; the host does not wait for it. */
  fill(arrays: ReadonlyMap<string, HostTensor>): void {
    const turn = this.#turn++ % bufferCount;
    const cuda = nativeCuda();
    cuda.eventWait(this.#events[turn] as number);
    for (const [name, { values }] of arrays) {
      const place = this.#places.get(name);
      if (!place) throw new Error(`no place was made for ${name}`);
      place.device.copy_((place.buffers[turn] as Tensor).write(values), true);
    }
    cuda.eventRecord(this.#events[turn] as number);
  }

  /** The device tensor of a name, if there is one. */
  get(name: string): Tensor | null {
    return this.#places.get(name)?.device ?? null;
  }

  get names(): IterableIterator<string> {
    return this.#places.keys();
  }

  dispose(): void {
    free([...this.#places.values()].flatMap(({ device, buffers }) => [device, ...buffers]));
    releaseEvents(this.#events);
  }
}
