import { type TokenInput, toAttentionBias } from "../models/index.js";
import type { HostTensor } from "../tensor/index.js";
import { padBatch } from "../text/batch.js";
import type { Encoding } from "../text/encoding.js";
import type { Batch } from "./batch.js";
import { getPadding } from "./batch-transfer.js";
import type { TrainingJob } from "./training-method.js";

/** Other texts for the rows of a batch, as arrays that a method returns from `collate`. */
export function collateTexts(
  prefix: string,
  encodings: readonly Encoding[],
  job: Pick<TrainingJob, "train" | "model" | "deviceConfig">,
  usesTypes: boolean,
): Record<string, HostTensor> {
  const padded = padBatch(encodings, job.model.tokenizer.special.padId, getPadding(job));
  const { ids, tokenTypeIds, lengths, batchSize, sequenceLength } = padded;
  const shape = [batchSize, sequenceLength];
  const mask = new Float32Array(batchSize * sequenceLength);
  for (const [row, length] of lengths.entries()) mask.fill(1, row * sequenceLength, row * sequenceLength + length);
  return {
    [`${prefix}.ids`]: { values: ids, shape },
    [`${prefix}.mask`]: { values: mask, shape },
    ...(usesTypes && { [`${prefix}.types`]: { values: tokenTypeIds, shape } }),
  };
}

export function readExtraTexts(prefix: string, batch: Batch, usesTypes: boolean): TokenInput {
  return {
    inputIds: batch.getExtra(`${prefix}.ids`),
    attentionBias: toAttentionBias(batch.getExtra(`${prefix}.mask`)),
    tokenTypeIds: usesTypes ? batch.getExtra(`${prefix}.types`) : null,
    packing: null,
  };
}
