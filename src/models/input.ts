import { type Device, type HostTensor, type Staging, scope, type Tensor, tensor } from "../tensor/index.js";
import type { Padded } from "../text/batch.js";
import type { Encoded, Tokenizer } from "../text/encoding.js";
import type { EncoderInput } from "./encoder.js";
import type { Model } from "./model.js";

/** Large enough to vanish in a softmax, small enough for float16 and bfloat16. */
const minusInfinity = -30000;

export type TokenInput = EncoderInput & { readonly ids: Tensor };

/** The numbers of a padded batch, before they are tensors. */
export interface InputArrays {
  readonly ids: Int32Array; // [rows, length]
  readonly types: Int32Array | null; // [rows, length]
  readonly bias: Float32Array | null; // [rows, 1, 1, length]
}

/** What the encoder reads of a batch. Where nothing is padded there is no bias, and where all types are 0 no types: both spare work. */
export function inputArrays(padded: Padded): InputArrays {
  return {
    ids: padded.ids,
    types: padded.types.some((type) => type !== 0) ? padded.types : null,
    bias: padded.tokens === padded.rows * padded.length ? null : Float32Array.from(padded.mask, (text) => (text ? 0 : minusInfinity)),
  };
}

/** The same by name, with shapes, for buffers that keep their place. */
export function namedArrays(padded: Padded): Map<string, HostTensor> {
  const { rows, length } = padded;
  const { ids, types, bias } = inputArrays(padded);
  const arrays = new Map<string, HostTensor>([["ids", { values: ids, shape: [rows, length] }]]);
  if (types) arrays.set("types", { values: types, shape: [rows, length] });
  if (bias) arrays.set("bias", { values: bias, shape: [rows, 1, 1, length] });
  return arrays;
}

/** The input that lies in such buffers. */
export function stagedInput(staging: Staging): TokenInput {
  const ids = staging.at("ids");
  if (!ids) throw new Error("the buffers hold no ids");
  return { ids, types: staging.at("types"), bias: staging.at("bias") };
}

/** A padded batch as tensors. */
export function toInput(padded: Padded, device: Device): TokenInput {
  const { rows, length } = padded;
  const { ids, types, bias } = inputArrays(padded);
  return scope(() => ({
    ids: tensor(ids, [rows, length], { device }),
    types: types && tensor(types, [rows, length], { device }),
    bias: bias && tensor(bias, [rows, 1, 1, length], { device }),
  }));
}

/** A text or pair as the model was trained to read it. */
export function encodeFor(
  model: { tokenizer: Tokenizer; encoding: Model["encoding"]; maxLength: number },
  texts: readonly string[],
): Encoded {
  return model.encoding === "word" ? model.tokenizer.encodeWords(texts, model.maxLength) : model.tokenizer.encode(texts, model.maxLength);
}
