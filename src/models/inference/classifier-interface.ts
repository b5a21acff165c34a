import type { Weights } from "../../nn/index.js";
import type { PaddedBatch } from "../../text/batch.js";

export interface Classifier {
  readonly numLabels: number;
  readonly padId: number;
  /** Maximum tokens per batch with padding: enough for all cores, few enough for the cache. */
  readonly batchTokens: number;
  /** The number of padding tokens that cost as much as one more batch. */
  readonly batchCost: number;
  /** True if batches have no padding, so that any lengths fit together. */
  readonly isPacked?: boolean;
  /** The number of batches that may run concurrently. Default: 1. */
  readonly depth?: number;
  /** Computes the logits, row by row. The work starts immediately. */
  computeLogits(batch: PaddedBatch): Promise<Float32Array>;
  close(): void;
}

/** A classifier that runs eagerly, with weights that other classifiers may share. */
export interface EagerClassifier extends Classifier {
  readonly weights: Weights;
}
