import { type Device, type HostTensor, type StagingBuffers, scope, type Tensor, tensor } from "../tensor/index.js";
import type { PaddedBatch } from "../text/batch.js";
import type { Encoding, Tokenizer } from "../text/encoding.js";
import type { EncoderInput } from "./encoder.js";
import type { Model } from "./model.js";

/** Large enough for a weight of 0 after the softmax, small enough for float16 and bfloat16. */
const paddingBias = -30000;

/** An input of token IDs. */
export type TokenInput = EncoderInput & { readonly inputIds: Tensor };

/** The arrays of a padded batch. */
interface InputArrays {
  readonly inputIds: Int32Array; // [rows, length]
  readonly tokenTypeIds: Int32Array | null; // [rows, length]
  readonly attentionBias: Float32Array | null; // [rows, 1, 1, length]
}

/**
 * Converts a batch to arrays. The bias is null without padding, and the types if all are 0, to save
 * work.
 */
function toInputArrays(padded: PaddedBatch): InputArrays {
  return {
    inputIds: padded.ids,
    tokenTypeIds: padded.tokenTypeIds.some((type) => type !== 0) ? padded.tokenTypeIds : null,
    attentionBias:
      padded.numTokens === padded.batchSize * padded.sequenceLength
        ? null
        : Float32Array.from(padded.attentionMask, (isToken) => (isToken ? 0 : paddingBias)),
  };
}

/** Converts a batch to named arrays with shapes, for staging buffers. */
export function toNamedArrays(padded: PaddedBatch): Map<string, HostTensor> {
  const { batchSize, sequenceLength } = padded;
  const { inputIds, tokenTypeIds, attentionBias } = toInputArrays(padded);
  const shape = [batchSize, sequenceLength];
  const arrays = new Map<string, HostTensor>([["inputIds", { values: inputIds, shape }]]);
  if (tokenTypeIds) arrays.set("tokenTypeIds", { values: tokenTypeIds, shape });
  if (attentionBias) arrays.set("attentionBias", { values: attentionBias, shape: [batchSize, 1, 1, sequenceLength] });
  return arrays;
}

/** Returns the input in staging buffers that were filled with `toNamedArrays`. */
export function readStagedInput(staging: StagingBuffers): TokenInput {
  const inputIds = staging.get("inputIds");
  if (!inputIds) throw new Error("the staging buffers have no inputIds");
  return { inputIds, tokenTypeIds: staging.get("tokenTypeIds"), attentionBias: staging.get("attentionBias") };
}

/** Converts a padded batch to tensors. */
export function toModelInput(padded: PaddedBatch, device: Device): TokenInput {
  const { batchSize, sequenceLength } = padded;
  const { inputIds, tokenTypeIds, attentionBias } = toInputArrays(padded);
  return scope(() => ({
    inputIds: tensor(inputIds, [batchSize, sequenceLength], { device }),
    tokenTypeIds: tokenTypeIds && tensor(tokenTypeIds, [batchSize, sequenceLength], { device }),
    attentionBias: attentionBias && tensor(attentionBias, [batchSize, 1, 1, sequenceLength], { device }),
  }));
}

/** Tokenizes a text or pair for a model. */
export function tokenizeFor(
  model: { tokenizer: Tokenizer; tokenization: Model["tokenization"]; maxLength: number },
  texts: readonly string[],
): Encoding {
  return model.tokenization === "word"
    ? model.tokenizer.encodeWords(texts, model.maxLength)
    : model.tokenizer.encode(texts, model.maxLength);
}
