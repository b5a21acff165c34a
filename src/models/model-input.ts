import { UserError } from "../base/errors.js";
import { type Device, type HostTensor, type StagingBuffers, scope, type Tensor, tensor } from "../tensor/index.js";
import type { PaddedBatch } from "../text/batch.js";
import type { Encoding, Tokenizer } from "../text/encoding.js";
import type { EncoderInput } from "./encoder.js";
import type { EncoderConfig } from "./families/family.js";
import type { Model } from "./model.js";
import { type Packing, type PackingSize, packOnHost } from "./packing.js";

/** Large enough for a weight of 0 after the softmax, small enough for float16 and bfloat16. */
export const paddingBias = -30000;

export type TokenInput = EncoderInput & { readonly inputIds: Tensor };

export interface InputLimits extends Pick<EncoderConfig, "vocabSize" | "maxLength"> {
  /** Families with fewer than two types ignore the types of an input. */
  readonly typeVocabSize?: number;
}

/** Rejects indices beyond the embedding tables, which would break every later work of a GPU. */
function checkLimits({ ids, tokenTypeIds, sequenceLength }: PaddedBatch, limits: InputLimits): void {
  const check = (values: Int32Array, size: number, what: string): void => {
    // Indices: an iterator takes longer than the rest of the preparation.
    for (let i = 0; i < values.length; i++) {
      const value = values[i]!;
      if (value < 0 || value >= size)
        throw new UserError(
          `The tokenizer produces the ${what} ${value}, but the model has only 0 to ${size - 1}. ` +
            "tokenizer.json and config.json do not belong together. Download the model again.",
        );
    }
  };
  check(ids, limits.vocabSize, "token ID");
  if ((limits.typeVocabSize ?? 0) > 1) check(tokenTypeIds, limits.typeVocabSize!, "type ID");
  if (sequenceLength > limits.maxLength)
    throw new RangeError(`sequence length: expected at most ${limits.maxLength}, received ${sequenceLength}`);
}

/**
 * Converts a batch to named arrays. The types are missing if all are 0, and the bias without
 * padding. `pack` adds what leaves out the padding; true rounds the number of tokens.
 */
export function toNamedArrays(
  padded: PaddedBatch,
  limits: InputLimits,
  pack: boolean | PackingSize = false,
): Map<string, HostTensor> {
  checkLimits(padded, limits);
  const { ids, tokenTypeIds, lengths, numTokens, batchSize, sequenceLength } = padded;
  const shape = [batchSize, sequenceLength];
  const arrays = new Map<string, HostTensor>([["inputIds", { values: ids, shape }]]);
  if (hasOtherTypes(tokenTypeIds)) arrays.set("tokenTypeIds", { values: tokenTypeIds, shape });
  if (numTokens !== batchSize * sequenceLength) {
    const values = new Float32Array(batchSize * sequenceLength);
    for (let row = 0; row < batchSize; row++)
      values.fill(paddingBias, row * sequenceLength + lengths[row]!, (row + 1) * sequenceLength);
    arrays.set("attentionBias", { values, shape: [batchSize, 1, 1, sequenceLength] });
  }
  const packing = pack ? packOnHost(padded, pack === true ? "rounded" : pack) : null;
  for (const name of packing ? packingNames : [])
    arrays.set(`packing.${name}`, { values: packing![name], shape: [packing![name].length] });
  return arrays;
}

/** Computes the attention bias of a mask of tokens: [batch, length] -> [batch, 1, 1, length]. */
export function toAttentionBias(attentionMask: Tensor): Tensor {
  const [batch, length] = attentionMask.shape as [number, number];
  return attentionMask.to("float32").sub(1).mul(-paddingBias).reshape(batch, 1, 1, length);
}

// A loop: callbacks over the tokens of a large batch take longer than the GPU's forward pass.
function hasOtherTypes(types: Int32Array): boolean {
  for (let i = 0; i < types.length; i++) if (types[i] !== 0) return true;
  return false;
}

export function readStagedInput(staging: Pick<StagingBuffers, "get">): TokenInput {
  const inputIds = staging.get("inputIds");
  if (!inputIds) throw new Error("the staging buffers have no inputIds");
  const attentionBias = staging.get("attentionBias");
  const tokenTypeIds = staging.get("tokenTypeIds");
  return {
    inputIds,
    tokenTypeIds,
    attentionBias,
    packing: readPacking(staging, inputIds.size(1)),
  };
}

const packingNames = ["indices", "starts", "firstStarts", "firstTokens"] as const;

function readPacking(staging: Pick<StagingBuffers, "get">, maxLength: number): Packing | null {
  const [indices, starts, firstStarts, firstTokens] = packingNames.map((name) => staging.get(`packing.${name}`));
  if (!indices || !starts || !firstStarts || !firstTokens) return null;
  return { indices, starts, firstStarts, firstTokens, maxLength };
}

export function toModelInput(
  padded: PaddedBatch,
  limits: InputLimits,
  device: Device,
  pack: boolean | PackingSize = false,
): TokenInput {
  const toDevice = ({ values, shape }: HostTensor): Tensor => tensor(values, shape, { device });
  return scope(() => {
    const tensors = new Map([...toNamedArrays(padded, limits, pack)].map(([name, array]) => [name, toDevice(array)]));
    return readStagedInput({ get: (name) => tensors.get(name) ?? null });
  });
}

type TokenizedModel = { tokenizer: Tokenizer; tokenization: Model["tokenization"]; maxLength: number };

/** Rejects a maximum length that leaves no room for text next to the special tokens. */
export function checkMaxLength(model: TokenizedModel, numTexts: number): void {
  const empty = new Array<string>(numTexts).fill("");
  const special = tokenizeFor({ ...model, maxLength: 512 }, empty).ids.length;
  if (model.maxLength > special) return;
  throw new UserError(
    `maxLength: expected at least ${special + 1} (${special} special tokens and one of the text), ` +
      `received ${model.maxLength}`,
  );
}

export function tokenizeFor(model: TokenizedModel, texts: readonly string[]): Encoding {
  return tokenizeAll(model, [texts])[0]!;
}

/** Tokenizes many texts or pairs for a model. This is much faster than one after the other. */
export function tokenizeAll(model: TokenizedModel, inputs: readonly (readonly string[])[]): Encoding[] {
  return model.tokenization === "subword"
    ? model.tokenizer.encodeAll(inputs, model.maxLength)
    : inputs.map((texts) => model.tokenizer.encodeWords(texts, model.maxLength));
}
