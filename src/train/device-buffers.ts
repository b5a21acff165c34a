import { inputArrays } from "../models/index.js";
import { type DataType, type Device, empty, free, keep, noGrad, pinned, type Tensor } from "../tensor/index.js";
import { nativeCuda } from "../tensor/native.js";
import type { Batch, HostBatch, HostTensor } from "./layer.js";
import { batchOf, collate, labelsOf } from "./runner.js";
import type { Stack } from "./stack.js";

/** All numbers of a batch by name: the input's, the labels, and what layers add. */
export function hostArrays(host: HostBatch, stack: Stack): Map<string, HostTensor> {
  const { rows, length } = host.padded;
  const { ids, types, bias } = inputArrays(host.padded);
  const arrays = new Map<string, HostTensor>([["ids", { values: ids, shape: [rows, length] }]]);
  if (types) arrays.set("types", { values: types, shape: [rows, length] });
  if (bias) arrays.set("bias", { values: bias, shape: [rows, 1, 1, length] });
  arrays.set("labels", { values: labelsOf(host), shape: [rows] });
  for (const [name, array] of collate(stack, host)) arrays.set(`extra.${name}`, array);
  return arrays;
}

/** Two batches may be on their way: the host fills one set of page-locked buffers while the device copies from the other. */
const turns = 2;
let events = 0;

interface Place {
  readonly device: Tensor;
  readonly staging: readonly Tensor[];
}

/** Device tensors that keep their place, for batches of one shape. */
export class DeviceBuffers {
  readonly #places = new Map<string, Place>();
  readonly #events = Array.from({ length: turns }, () => events++);
  #turn = 0;

  constructor(arrays: ReadonlyMap<string, HostTensor>, device: Device) {
    noGrad(() => {
      for (const [name, { values, shape }] of arrays) {
        const type: DataType = values instanceof Float32Array ? "float32" : values instanceof Int32Array ? "int64" : "bool";
        const staging = Array.from({ length: turns }, () => keep(pinned(shape, type)));
        this.#places.set(name, { device: keep(empty(shape, { type, device })), staging });
      }
    });
  }

  /** Starts the copy of a batch; the host does not wait for it. */
  fill(host: HostBatch, arrays: ReadonlyMap<string, HostTensor>): Batch {
    const turn = this.#turn++ % turns;
    const cuda = nativeCuda();
    cuda.eventWait(this.#events[turn] as number);
    for (const [name, { values }] of arrays) {
      const place = this.#places.get(name) as Place;
      place.device.copy_((place.staging[turn] as Tensor).write(values), true);
    }
    cuda.eventRecord(this.#events[turn] as number);
    const at = (name: string): Tensor | null => this.#places.get(name)?.device ?? null;
    const extras = new Map(
      [...this.#places].flatMap(([name, { device }]): [string, Tensor][] => (name.startsWith("extra.") ? [[name.slice(6), device]] : [])),
    );
    return batchOf(host, { ids: at("ids") as Tensor, types: at("types"), bias: at("bias") }, at("labels") as Tensor, extras);
  }

  dispose(): void {
    free([...this.#places.values()].flatMap(({ device, staging }) => [device, ...staging]));
  }
}
