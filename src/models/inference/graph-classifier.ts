import { evalMode, type Weights } from "../../nn/index.js";
import {
  acquireEvent,
  allocatePinned,
  type CudaGraph,
  captureGraph,
  type Device,
  type DType,
  empty,
  free,
  type HostTensor,
  keep,
  noGrad,
  releaseEvents,
  StagingBuffers,
  scope,
  type Tensor,
  waitForEvent,
} from "../../tensor/index.js";
import { nativeCuda } from "../../tensor/native.js";
import { bucketLength, type PaddedBatch } from "../../text/batch.js";
import { canPackTexts } from "../can-pack.js";
import { type Architecture, forward, type Model } from "../model.js";
import { readStagedInput, toNamedArrays } from "../model-input.js";
import type { Classifier, EagerClassifier } from "./classifier-interface.js";

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

/** Classifies large batches on a GPU, whose kernels take longer than their launches. */
class LargeBatches {
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

/** A shape that batches are padded to, with its captured graph. */
interface Bucket {
  readonly staging: StagingBuffers;
  captured: { readonly graph: CudaGraph; readonly output: Tensor } | null;
  seen: boolean;
  readonly idleBuffers: { readonly values: Tensor; readonly event: number }[];
}

/** Lengths are rounded up to multiples of this, so that few graphs serve all batches. */
const lengthMultiple = 8;
const minRows = 8;
/** A larger batch keeps the GPU busy, and its padding would cost more than its launches. */
const defaultMaxGraphTokens = 8192;
/** Concurrent batches: the GPU computes one while the next waits and the host prepares another. */
const depth = 3;

/**
 * Creates a classifier for a GPU. Small batches are padded to a few shapes, each captured once as a
 * CUDA graph. Results return while the host prepares the next batch.
 */
export function createGraphClassifier(
  model: Pick<Model, "architecture" | "tokenizer">,
  eager: EagerClassifier,
  device: Device,
  maxGraphTokens = defaultMaxGraphTokens,
): Classifier {
  const { padId } = model.tokenizer.special;
  const { numLabels, config } = model.architecture;
  const canPack = canPackTexts(config, { device, computeDtype: [...eager.weights.values()][0]!.dtype });
  const large = new LargeBatches(model.architecture, eager.weights, device, canPack);
  const buckets = new Map<string, Bucket>();

  function getBucket(arrays: ReadonlyMap<string, HostTensor>): Bucket {
    const key = JSON.stringify([...arrays].map(([name, { shape }]) => [name, shape]));
    const known = buckets.get(key);
    if (known) return known;
    const staging = new StagingBuffers(arrays, device);
    const bucket: Bucket = { staging, captured: null, seen: false, idleBuffers: [] };
    buckets.set(key, bucket);
    return bucket;
  }

  const compute = (bucket: Bucket): Tensor =>
    noGrad(() =>
      scope(() => {
        return forward(model.architecture, eager.weights, readStagedInput(bucket.staging), evalMode).logits;
      }),
    );

  function start(batch: PaddedBatch): { bucket: Bucket; buffer: { readonly values: Tensor; readonly event: number } } {
    const arrays = toNamedArrays(batch, config, canPack);
    const bucket = getBucket(arrays);
    bucket.staging.fill(arrays);
    const buffer = bucket.idleBuffers.pop() ?? {
      values: keep(allocatePinned([batch.batchSize, numLabels], "float32")),
      event: acquireEvent(),
    };
    scope(() => {
      if (bucket.seen && !bucket.captured) {
        const { graph, result: output } = captureGraph([], () => keep(compute(bucket)));
        bucket.captured = { graph, output };
      }
      bucket.captured?.graph.replay();
      buffer.values.copy_(bucket.captured?.output ?? compute(bucket), true);
    });
    bucket.seen = true;
    nativeCuda().eventRecord(buffer.event);
    return { bucket, buffer };
  }

  return {
    numLabels,
    padId,
    batchTokens: eager.batchTokens,
    // Packed texts have no padding.
    batchCost: canPack ? Number.POSITIVE_INFINITY : eager.batchCost,
    depth,
    async computeLogits(batch) {
      if (batch.batchSize * batch.sequenceLength > maxGraphTokens) return large.computeLogits(batch);
      const { bucket, buffer } = start(padToBucket(batch, padId, config.maxLength, canPack));
      await waitForEvent(buffer.event);
      const values = buffer.values.toFloat32Array();
      bucket.idleBuffers.push(buffer);
      return values.subarray(0, batch.batchSize * numLabels);
    },
    close() {
      for (const { staging, captured, idleBuffers } of buckets.values()) {
        captured?.graph.free();
        free([captured?.output, idleBuffers.map(({ values }) => values)]);
        releaseEvents(idleBuffers.map(({ event }) => event));
        staging.dispose();
      }
      large.dispose();
      eager.close();
    },
  };
}

/**
 * Extends a batch with padding and copies of its first row to one of a few shapes. All batches get
 * padding, and so a bias, except for texts of the maximum length.
 */
export function padToBucket(batch: PaddedBatch, padId: number, maxLength: number, canPack = false): PaddedBatch {
  const batchSize = Math.max(minRows, 2 ** Math.ceil(Math.log2(batch.batchSize)));
  const sequenceLength = Math.min(bucketLength(batch.sequenceLength + 1, lengthMultiple), maxLength);
  const ids = new Int32Array(batchSize * sequenceLength).fill(padId);
  const tokenTypeIds = new Int32Array(batchSize * sequenceLength);
  const attentionMask = new Uint8Array(batchSize * sequenceLength);
  const lengths = new Int32Array(batchSize);
  for (let row = 0; row < batchSize; row++) {
    const source = row < batch.batchSize ? row : 0;
    const start = source * batch.sequenceLength;
    const end = start + (canPack && row >= batch.batchSize ? 1 : batch.sequenceLength);
    ids.set(batch.ids.subarray(start, end), row * sequenceLength);
    tokenTypeIds.set(batch.tokenTypeIds.subarray(start, end), row * sequenceLength);
    attentionMask.set(batch.attentionMask.subarray(start, end), row * sequenceLength);
    lengths[row] = Math.min(batch.lengths[source]!, end - start);
  }
  const numTokens = lengths.reduce((sum, size) => sum + size, 0);
  return { batchSize, sequenceLength, ids, tokenTypeIds, attentionMask, lengths, numTokens };
}
