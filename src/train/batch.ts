import type { TokenInput } from "../models/index.js";
import type { Tensor } from "../tensor/index.js";
import type { PaddedBatch } from "../text/batch.js";
import type { TokenizedExample } from "./dataset.js";

export interface HostBatch {
  /** Positions in the dataset. */
  readonly indices: Int32Array;
  readonly items: readonly TokenizedExample[];
  readonly padded: PaddedBatch;
  readonly labels: Int32Array; // [batch]
  readonly epoch: number;
}

export interface Batch {
  readonly input: TokenInput;
  readonly labels: Tensor; // [batch]
  readonly batchSize: number;
  readonly sequenceLength: number;
  getExtra(name: string): Tensor;
  hasExtra(name: string): boolean;
}
