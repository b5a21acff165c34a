import { evalMode } from "../nn/index.js";
import {
  capture,
  type Device,
  free,
  freeEvents,
  type Graph,
  type HostTensor,
  keep,
  newEvent,
  noGrad,
  pinned,
  Staging,
  scope,
  type Tensor,
} from "../tensor/index.js";
import { nativeCuda } from "../tensor/native.js";
import { bucketLength, type PaddedBatch } from "../text/batch.js";
import type { Classifier, EagerClassifier } from "./classifier.js";
import { forward, type Model } from "./model.js";
import { readStagedInput, toNamedArrays } from "./model-input.js";

/** A shape that batches are filled up to, with its work once it is recorded. */
interface Bucket {
  readonly staging: Staging;
  captured: { readonly graph: Graph; readonly output: Tensor } | null;
  seen: boolean;
  /** Places for results on their way back that no batch is using. */
  readonly idle: ResultBuffer[];
}

/** Where a batch's results come to, and the mark that tells when they are there. */
interface ResultBuffer {
  readonly values: Tensor;
  readonly event: number;
}

/** Few lengths and row counts, so that few graphs serve all batches. */
const lengthStep = 8;
const minRows = 8;
/** Beyond so many tokens a batch keeps the GPU busy by itself, and filling it up would cost more than launching its operators. */
const maxGraphTokens = 8192;
/** Batches under way: one is computed while the next is packed. */
const depth = 2;

/**
 * A model as a classifier on a GPU: small batches are filled up to a few shapes, and each shape's work is recorded once and replayed.
 * The results of one batch come back while the next is being packed. Large batches go to the classifier it stands on.
 */
export function createGraphClassifier(
  model: Pick<Model, "architecture" | "tokenizer">,
  large: EagerClassifier,
  device: Device,
): Classifier {
  const { padId: pad } = model.tokenizer.special;
  const { numLabels: classes, config } = model.architecture;
  const buckets = new Map<string, Bucket>();

  function getBucket(arrays: ReadonlyMap<string, HostTensor>): Bucket {
    const key = JSON.stringify([...arrays].map(([name, { shape }]) => [name, shape]));
    const known = buckets.get(key);
    if (known) return known;
    const bucket: Bucket = { staging: new Staging(arrays, device), captured: null, seen: false, idle: [] };
    buckets.set(key, bucket);
    return bucket;
  }

  const work = (bucket: Bucket): Tensor =>
    noGrad(() =>
      scope(() =>
        forward(model.architecture, large.weights, readStagedInput(bucket.staging), evalMode).logits.softmax(-1),
      ),
    );

  /** Starts a batch; its results will come to the place. */
  function start(filled: PaddedBatch): { bucket: Bucket; place: ResultBuffer } {
    const arrays = toNamedArrays(filled);
    const bucket = getBucket(arrays);
    bucket.staging.fill(arrays);
    const place = bucket.idle.pop() ?? {
      values: keep(pinned([filled.batchSize, classes], "float32")),
      event: newEvent(),
    };
    scope(() => {
      if (bucket.seen && !bucket.captured) {
        const { graph, result: output } = capture([], () => keep(work(bucket)));
        bucket.captured = { graph, output };
      }
      bucket.captured?.graph.replay();
      place.values.copy_(bucket.captured?.output ?? work(bucket), true);
    });
    bucket.seen = true;
    nativeCuda().eventRecord(place.event);
    return { bucket, place };
  }

  return {
    numLabels: classes,
    padId: pad,
    batchTokens: large.batchTokens,
    batchCost: large.batchCost,
    depth,
    async probabilities(batch) {
      if (batch.batchSize * batch.sequenceLength > maxGraphTokens) return large.probabilities(batch);
      const { bucket, place } = start(padToBucket(batch, pad, config.maxLength));
      await new Promise(setImmediate);
      nativeCuda().eventWait(place.event);
      const values = place.values.toFloat32Array();
      bucket.idle.push(place);
      return values.subarray(0, batch.batchSize * classes);
    },
    close() {
      for (const { staging, captured: recorded, idle } of buckets.values()) {
        recorded?.graph.free();
        free([recorded?.output, idle.map(({ values }) => values)]);
        freeEvents(idle.map(({ event }) => event));
        staging.dispose();
      }
      large.close();
    },
  };
}

/**
 * A batch with padding and copies of its first row, so that its shape is one of few; with some padding, so that all have a bias, but for
 * texts as long as the model can read.
 */
export function padToBucket(batch: PaddedBatch, pad: number, maxLength: number): PaddedBatch {
  const rows = Math.max(minRows, 2 ** Math.ceil(Math.log2(batch.batchSize)));
  const length = Math.min(bucketLength(batch.sequenceLength + 1, lengthStep), maxLength);
  const ids = new Int32Array(rows * length).fill(pad);
  const types = new Int32Array(rows * length);
  const mask = new Uint8Array(rows * length);
  const lengths = new Int32Array(rows);
  for (let row = 0; row < rows; row++) {
    const from = (row < batch.batchSize ? row : 0) * batch.sequenceLength;
    ids.set(batch.ids.subarray(from, from + batch.sequenceLength), row * length);
    types.set(batch.tokenTypeIds.subarray(from, from + batch.sequenceLength), row * length);
    mask.set(batch.attentionMask.subarray(from, from + batch.sequenceLength), row * length);
    lengths[row] = batch.lengths[row < batch.batchSize ? row : 0] as number;
  }
  return {
    batchSize: rows,
    sequenceLength: length,
    ids,
    tokenTypeIds: types,
    attentionMask: mask,
    lengths,
    numTokens: lengths.reduce((sum, size) => sum + size, 0),
  };
}
