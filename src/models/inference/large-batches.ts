import { evalMode, type Weights } from "../../nn/index.js";
import {
  acquireEvent,
  allocatePinned,
  type Device,
  type DType,
  empty,
  free,
  type HostTensor,
  keep,
  noGrad,
  releaseEvents,
  scope,
  type Tensor,
  waitForEvent,
} from "../../tensor/index.js";
import { nativeCuda } from "../../tensor/native.js";
import type { PaddedBatch } from "../../text/batch.js";
import { type Architecture, forward } from "../model.js";
import { readStagedInput, toNamedArrays } from "../model-input.js";

/** Page-locked host memory of one batch in flight, which grows with the batches. */
class PinnedSlot {
  readonly event = acquireEvent();
  readonly #buffers = new Map<string, Tensor>();

  /** Returns a buffer of a shape. It is valid until the slot is used again. */
  get(name: string, shape: readonly number[], dtype: DType): Tensor {
    const count = shape.reduce((product, size) => product * size, 1);
    const key = `${name} ${dtype}`;
    let buffer = this.#buffers.get(key);
    if (!buffer || buffer.numel < count) {
      if (buffer) free(buffer);
      buffer = keep(allocatePinned([2 ** Math.ceil(Math.log2(Math.max(1, count)))], dtype));
      this.#buffers.set(key, buffer);
    }
    return buffer.narrow(0, 0, count).reshape(...shape);
  }

  dispose(): void {
    free([...this.#buffers.values()]);
    releaseEvents([this.event]);
  }
}

/**
 * Classifies large batches on a GPU, whose kernels take longer than their launches, without a
 * graph. The host prepares the next batch meanwhile.
 */
export class LargeBatches {
  readonly #idleSlots: PinnedSlot[] = [];

  constructor(
    readonly architecture: Architecture,
    readonly weights: Weights,
    readonly device: Device,
    readonly canPack: boolean,
  ) {}

  async computeLogits(batch: PaddedBatch): Promise<Float32Array> {
    const arrays = toNamedArrays(batch, this.architecture.config, this.canPack && "exact");
    const slot = this.#idleSlots.pop() ?? new PinnedSlot();
    try {
      this.#start(slot, batch, arrays);
      await waitForEvent(slot.event);
      return scope(() => this.#getResult(slot, batch).toFloat32Array());
    } finally {
      this.#idleSlots.push(slot);
    }
  }

  #start(slot: PinnedSlot, batch: PaddedBatch, arrays: ReadonlyMap<string, HostTensor>): void {
    noGrad(() =>
      scope(() => {
        const inputs = new Map([...arrays].map(([name, array]) => [name, this.#copyToDevice(slot, name, array)]));
        const input = readStagedInput({ get: (name) => inputs.get(name) ?? null });
        const { logits } = forward(this.architecture, this.weights, input, evalMode);
        this.#getResult(slot, batch).copy_(logits, true);
      }),
    );
    nativeCuda().eventRecord(slot.event);
  }

  #getResult(slot: PinnedSlot, { batchSize }: PaddedBatch): Tensor {
    return slot.get("result", [batchSize, this.architecture.numLabels], "float32");
  }

  #copyToDevice(slot: PinnedSlot, name: string, { values, shape }: HostTensor): Tensor {
    const dtype = values instanceof Float32Array ? "float32" : "int64";
    const target = empty(shape, { dtype, device: this.device });
    target.copy_(slot.get(name, shape, dtype).write(values), true);
    return target;
  }

  dispose(): void {
    for (const slot of this.#idleSlots) slot.dispose();
  }
}
