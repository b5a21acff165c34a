import { type Device, type HostTensor, type Staging, scope, type Tensor, tensor } from "../tensor/index.js";
import type { PaddedBatch } from "../text/batch.js";
import type { Encoding, Tokenizer } from "../text/encoding.js";
import type { EncoderInput } from "./encoder.js";
import type { Model } from "./model.js";

/** Large enough to vanish in a softmax, small enough for float16 and bfloat16. */
const paddingBias = -30000;

export type TokenInput = EncoderInput & { readonly inputIds: Tensor };

/** The numbers of a padded batch, before they are tensors. */
export interface InputArrays {
  readonly inputIds: Int32Array; // [rows, length]
  readonly tokenTypeIds: Int32Array | null; // [rows, length]
  readonly attentionBias: Float32Array | null; // [rows, 1, 1, length]
}

/** What the encoder reads of a batch. Where nothing is padded there is no bias, and where all types are 0 no types: both spare work. */
export function toInputArrays(padded: PaddedBatch): InputArrays {
  return {
    inputIds: padded.ids,
    tokenTypeIds: padded.tokenTypeIds.some((type) => type !== 0) ? padded.tokenTypeIds : null,
    attentionBias:
      padded.numTokens === padded.batchSize * padded.sequenceLength
        ? null
        : Float32Array.from(padded.attentionMask, (text) => (text ? 0 : paddingBias)),
  };
}

/** The same by name, with shapes, for buffers that keep their place. */
export function toNamedArrays(padded: PaddedBatch): Map<string, HostTensor> {
  const { batchSize: rows, sequenceLength: length } = padded;
  const { inputIds: ids, tokenTypeIds: types, attentionBias: bias } = toInputArrays(padded);
  const arrays = new Map<string, HostTensor>([["ids", { values: ids, shape: [rows, length] }]]);
  if (types) arrays.set("types", { values: types, shape: [rows, length] });
  if (bias) arrays.set("bias", { values: bias, shape: [rows, 1, 1, length] });
  return arrays;
}

/** The input that lies in such buffers. */
export function readStagedInput(staging: Staging): TokenInput {
  const ids = staging.get("ids");
  if (!ids) throw new Error("the buffers hold no ids");
  return { inputIds: ids, tokenTypeIds: staging.get("types"), attentionBias: staging.get("bias") };
}

/** A padded batch as tensors. */
export function toModelInput(padded: PaddedBatch, device: Device): TokenInput {
  const { batchSize: rows, sequenceLength: length } = padded;
  const { inputIds: ids, tokenTypeIds: types, attentionBias: bias } = toInputArrays(padded);
  return scope(() => ({
    inputIds: tensor(ids, [rows, length], { device }),
    tokenTypeIds: types && tensor(types, [rows, length], { device }),
    attentionBias: bias && tensor(bias, [rows, 1, 1, length], { device }),
  }));
}

/** A text or pair as the model was trained to read it. */
export function tokenizeFor(
  model: { tokenizer: Tokenizer; tokenization: Model["tokenization"]; maxLength: number },
  texts: readonly string[],
): Encoding {
  return model.tokenization === "word"
    ? model.tokenizer.encodeWords(texts, model.maxLength)
    : model.tokenizer.encode(texts, model.maxLength);
}
