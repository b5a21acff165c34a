import { type Device, type HostTensor, type StagingBuffers, scope, type Tensor, tensor } from "../tensor/index.js";
import type { PaddedBatch } from "../text/batch.js";
import type { Encoding, Tokenizer } from "../text/encoding.js";
import type { EncoderInput } from "./encoder.js";
import type { Model } from "./model.js";

/** Large enough for a weight of 0 after the softmax, small enough for float16 and bfloat16. */
const paddingBias = -30000;

/** An input of token IDs. */
export type TokenInput = EncoderInput & { readonly inputIds: Tensor };

/**
 * Converts a batch to named arrays with shapes. The types are missing if all are 0, and the bias
 * without padding, to save work.
 */
export function toNamedArrays(padded: PaddedBatch): Map<string, HostTensor> {
  const { ids, tokenTypeIds, attentionMask, numTokens, batchSize, sequenceLength } = padded;
  const shape = [batchSize, sequenceLength];
  const arrays = new Map<string, HostTensor>([["inputIds", { values: ids, shape }]]);
  if (tokenTypeIds.some((type) => type !== 0)) arrays.set("tokenTypeIds", { values: tokenTypeIds, shape });
  if (numTokens !== batchSize * sequenceLength) {
    const values = Float32Array.from(attentionMask, (isToken) => (isToken ? 0 : paddingBias));
    arrays.set("attentionBias", { values, shape: [batchSize, 1, 1, sequenceLength] });
  }
  return arrays;
}

/** Returns the input in staging buffers that were filled with `toNamedArrays`. */
export function readStagedInput(staging: Pick<StagingBuffers, "get">): TokenInput {
  const inputIds = staging.get("inputIds");
  if (!inputIds) throw new Error("the staging buffers have no inputIds");
  return { inputIds, tokenTypeIds: staging.get("tokenTypeIds"), attentionBias: staging.get("attentionBias") };
}

/** Converts a padded batch to tensors. */
export function toModelInput(padded: PaddedBatch, device: Device): TokenInput {
  const toDevice = ({ values, shape }: HostTensor): Tensor => tensor(values, shape, { device });
  return scope(() => {
    const tensors = new Map([...toNamedArrays(padded)].map(([name, array]) => [name, toDevice(array)]));
    return readStagedInput({ get: (name) => tensors.get(name) ?? null });
  });
}

type TokenizedModel = { tokenizer: Tokenizer; tokenization: Model["tokenization"]; maxLength: number };

/** Tokenizes a text or pair for a model. */
export function tokenizeFor(model: TokenizedModel, texts: readonly string[]): Encoding {
  return tokenizeAll(model, [texts])[0]!;
}

/** Tokenizes many texts or pairs for a model. This is much faster than one after the other. */
export function tokenizeAll(model: TokenizedModel, inputs: readonly (readonly string[])[]): Encoding[] {
  return model.tokenization === "word"
    ? inputs.map((texts) => model.tokenizer.encodeWords(texts, model.maxLength))
    : model.tokenizer.encodeAll(inputs, model.maxLength);
}
