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
  useRecordableStream,
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
  /** Results on their way back, one set a turn. */
  readonly results: readonly { readonly values: Tensor; readonly event: number }[];
  turn: number;
}

/** Few lengths and row counts, so that few graphs serve all batches. */
const lengthStep = 8;
const leastRows = 8;
/** Beyond so many tokens a batch keeps the GPU busy by itself, and filling it up would cost more than launching its operators. */
const largestRecorded = 8192;
const turns = 2;

/**
 * A model as a classifier on a GPU: small batches are filled up to a few shapes, and each shape's work is recorded once and replayed.
 * The results of one batch come back while the next is being packed. Large batches go to the classifier it stands on.
 */
export function graphClassifier(model: Pick<Model, "shape" | "tokenizer">, large: EagerClassifier, device: Device): Classifier {
  useRecordableStream(device);
  const { pad } = model.tokenizer.special;
  const { classes } = model.shape;
  const buckets = new Map<string, Bucket>();

  function bucketOf(arrays: ReadonlyMap<string, HostTensor>, rows: number): Bucket {
    const key = JSON.stringify([...arrays].map(([name, { shape }]) => [name, shape]));
    const known = buckets.get(key);
    if (known) return known;
    const results = Array.from({ length: turns }, () => ({ values: keep(pinned([rows, classes], "float32")), event: newEvent() }));
    const bucket: Bucket = { staging: new Staging(arrays, device), recorded: null, seen: false, results, turn: 0 };
    buckets.set(key, bucket);
    return bucket;
  }

  const work = (bucket: Bucket): Tensor =>
    noGrad(() => scope(() => forward(model.shape, large.weights, stagedInput(bucket.staging), evaluating).logits.softmax(-1)));

  /** Starts a batch and returns the place its results will come to. */
  function start(filled: Padded): Bucket["results"][number] {
    const arrays = namedArrays(filled);
    const bucket = bucketOf(arrays, filled.rows);
    bucket.staging.fill(arrays);
    const result = bucket.results[bucket.turn++ % turns] as Bucket["results"][number];
    scope(() => {
      if (bucket.seen && !bucket.recorded) {
        const { graph, result: output } = capture([], () => keep(work(bucket)));
        bucket.recorded = { graph, output };
      }
      bucket.recorded?.graph.replay();
      result.values.copy_(bucket.recorded?.output ?? work(bucket), true);
    });
    bucket.seen = true;
    nativeCuda().eventRecord(result.event);
    return result;
  }

  return {
    classes,
    pad,
    batchTokens: large.batchTokens,
    batchCost: large.batchCost,
    depth: turns,
    async probabilities(batch) {
      if (batch.rows * batch.length > largestRecorded) return large.probabilities(batch);
      const result = start(fillUp(batch, pad));
      await new Promise(setImmediate);
      nativeCuda().eventWait(result.event);
      return result.values.floats().subarray(0, batch.rows * classes);
    },
    close() {
      for (const { staging, recorded, results } of buckets.values()) {
        recorded?.graph.free();
        free([recorded?.output, results.map(({ values }) => values)]);
        freeEvents(results.map(({ event }) => event));
        staging.dispose();
      }
      large.close();
    },
  };
}

/** A batch with padding and copies of its first row, so that its shape is one of few; always with some padding, so that all have a bias. */
export function fillUp(batch: Padded, pad: number): Padded {
  const rows = Math.max(leastRows, 2 ** Math.ceil(Math.log2(batch.rows)));
  const length = bucketLength(batch.length + 1, lengthStep);
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
