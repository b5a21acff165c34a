import { namedArrays, stagedInput } from "../models/index.js";
import { type Device, type HostTensor, Staging, type Tensor } from "../tensor/index.js";
import type { Batch, HostBatch } from "./layer.js";
import { batchOf, collate, labelsOf } from "./runner.js";
import type { Stack } from "./stack.js";

const extra = "extra.";

/** All numbers of a batch by name: the input's, the labels, and what layers add. */
export function hostArrays(host: HostBatch, stack: Stack): Map<string, HostTensor> {
  const arrays = namedArrays(host.padded);
  arrays.set("labels", { values: labelsOf(host), shape: [host.padded.rows] });
  for (const [name, array] of collate(stack, host)) arrays.set(extra + name, array);
  return arrays;
}

/** Device tensors that keep their place, for batches of one shape. */
export class DeviceBuffers {
  readonly #staging: Staging;
  readonly #extras: ReadonlyMap<string, Tensor>;

  constructor(arrays: ReadonlyMap<string, HostTensor>, device: Device) {
    const staging = new Staging(arrays, device);
    const names = [...staging.names].filter((name) => name.startsWith(extra));
    this.#extras = new Map(names.map((name) => [name.slice(extra.length), staging.at(name) as Tensor]));
    this.#staging = staging;
  }

  /** Starts the copy of a batch; the host does not wait for it. */
  fill(host: HostBatch, arrays: ReadonlyMap<string, HostTensor>): Batch {
    this.#staging.fill(arrays);
    return batchOf(host, stagedInput(this.#staging), this.#staging.at("labels") as Tensor, this.#extras);
  }

  dispose(): void {
    this.#staging.dispose();
  }
}
