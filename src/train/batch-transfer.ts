import { readStagedInput, toNamedArrays } from "../models/index.js";
import { type Device, type HostTensor, StagingBuffers, type Tensor } from "../tensor/index.js";
import type { MethodStack } from "./method-stack.js";
import { collateExtras, createBatch, getLabels } from "./runner.js";
import type { Batch, HostBatch } from "./training-method.js";

const extraPrefix = "extra.";

/** All numbers of a batch by name: the input's, the labels, and what layers add. */
export function collectHostArrays(host: HostBatch, stack: MethodStack): Map<string, HostTensor> {
  const arrays = toNamedArrays(host.padded);
  arrays.set("labels", { values: getLabels(host), shape: [host.padded.batchSize] });
  for (const [name, array] of collateExtras(stack, host)) arrays.set(extraPrefix + name, array);
  return arrays;
}

/** Device tensors that keep their place, for batches of one shape. */
export class DeviceBuffers {
  readonly #staging: StagingBuffers;
  readonly #extras: ReadonlyMap<string, Tensor>;

  constructor(arrays: ReadonlyMap<string, HostTensor>, device: Device) {
    const staging = new StagingBuffers(arrays, device);
    const names = [...staging.names].filter((name) => name.startsWith(extraPrefix));
    this.#extras = new Map(names.map((name) => [name.slice(extraPrefix.length), staging.get(name) as Tensor]));
    this.#staging = staging;
  }

  /** Starts the copy of a batch; the host does not wait for it. */
  fill(host: HostBatch, arrays: ReadonlyMap<string, HostTensor>): Batch {
    this.#staging.fill(arrays);
    return createBatch(host, readStagedInput(this.#staging), this.#staging.get("labels") as Tensor, this.#extras);
  }

  dispose(): void {
    this.#staging.dispose();
  }
}
