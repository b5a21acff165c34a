import { evaluating } from "../nn/index.js";
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
import { bucketLength, type Padded } from "../text/batch.js";
import type { Classifier, EagerClassifier } from "./classifier.js";
import { namedArrays, stagedInput } from "./input.js";
import { forward, type Model } from "./model.js";

/** A shape that batches are filled up to, with its work once it is recorded. */
interface Bucket {
  readonly staging: Staging;
  recorded: { readonly graph: Graph; readonly output: Tensor } | null;
  seen: boolean;
  /** Places for results on their way back that no batch is using. */
  readonly idle: Place[];
}

/** Where a batch's results come to, and the mark that tells when they are there. */
interface Place {
  readonly values: Tensor;
  readonly event: number;
}

/** Few lengths and row counts, so that few graphs serve all batches. */
const lengthStep = 8;
const leastRows = 8;
/** Beyond so many tokens a batch keeps the GPU busy by itself, and filling it up would cost more than launching its operators. */
const largestRecorded = 8192;
/** Batches under way: one is computed while the next is packed. */
const depth = 2;

/**
 * A model as a classifier on a GPU: small batches are filled up to a few shapes, and each shape's work is recorded once and replayed.
 * The results of one batch come back while the next is being packed. Large batches go to the classifier it stands on.
 */
export function graphClassifier(model: Pick<Model, "shape" | "tokenizer">, large: EagerClassifier, device: Device): Classifier {
  const { pad } = model.tokenizer.special;
  const { classes, config } = model.shape;
  const buckets = new Map<string, Bucket>();

  function bucketOf(arrays: ReadonlyMap<string, HostTensor>): Bucket {
    const key = JSON.stringify([...arrays].map(([name, { shape }]) => [name, shape]));
    const known = buckets.get(key);
    if (known) return known;
    const bucket: Bucket = { staging: new Staging(arrays, device), recorded: null, seen: false, idle: [] };
    buckets.set(key, bucket);
    return bucket;
  }

  const work = (bucket: Bucket): Tensor =>
    noGrad(() => scope(() => forward(model.shape, large.weights, stagedInput(bucket.staging), evaluating).logits.softmax(-1)));

  /** Starts a batch; its results will come to the place. */
  function start(filled: Padded): { bucket: Bucket; place: Place } {
    const arrays = namedArrays(filled);
    const bucket = bucketOf(arrays);
    bucket.staging.fill(arrays);
    const place = bucket.idle.pop() ?? { values: keep(pinned([filled.rows, classes], "float32")), event: newEvent() };
    scope(() => {
      if (bucket.seen && !bucket.recorded) {
        const { graph, result: output } = capture([], () => keep(work(bucket)));
        bucket.recorded = { graph, output };
      }
      bucket.recorded?.graph.replay();
      place.values.copy_(bucket.recorded?.output ?? work(bucket), true);
    });
    bucket.seen = true;
    nativeCuda().eventRecord(place.event);
    return { bucket, place };
  }

  return {
    classes,
    pad,
    batchTokens: large.batchTokens,
    batchCost: large.batchCost,
    depth,
    async probabilities(batch) {
      if (batch.rows * batch.length > largestRecorded) return large.probabilities(batch);
      const { bucket, place } = start(fillUp(batch, pad, config.maxLength));
      await new Promise(setImmediate);
      nativeCuda().eventWait(place.event);
      const values = place.values.floats();
      bucket.idle.push(place);
      return values.subarray(0, batch.rows * classes);
    },
    close() {
      for (const { staging, recorded, idle } of buckets.values()) {
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
export function fillUp(batch: Padded, pad: number, longest: number): Padded {
  const rows = Math.max(leastRows, 2 ** Math.ceil(Math.log2(batch.rows)));
  const length = Math.min(bucketLength(batch.length + 1, lengthStep), longest);
  const ids = new Int32Array(rows * length).fill(pad);
  const types = new Int32Array(rows * length);
  const mask = new Uint8Array(rows * length);
  const lengths = new Int32Array(rows);
  for (let row = 0; row < rows; row++) {
    const from = (row < batch.rows ? row : 0) * batch.length;
    ids.set(batch.ids.subarray(from, from + batch.length), row * length);
    types.set(batch.types.subarray(from, from + batch.length), row * length);
    mask.set(batch.mask.subarray(from, from + batch.length), row * length);
    lengths[row] = batch.lengths[row < batch.rows ? row : 0] as number;
  }
  return { rows, length, ids, types, mask, lengths, tokens: lengths.reduce((sum, size) => sum + size, 0) };
}
