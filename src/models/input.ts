import { type Device, scope, type Tensor, tensor } from "../tensor/index.js";
import type { Padded } from "../text/batch.js";
import type { Encoded, Tokenizer } from "../text/encoding.js";
import type { EncoderInput } from "./encoder.js";
import type { Model } from "./model.js";

/** Large enough to vanish in a softmax, small enough for float16 and bfloat16. */
const minusInfinity = -30000;

export type TokenInput = EncoderInput & { readonly ids: Tensor };

/** A padded batch as tensors. Where nothing is padded there is no bias, and where all types are 0 no types: both spare work. */
export function toInput(padded: Padded, device: Device): TokenInput {
  const { rows, length } = padded;
  return scope(() => ({
    ids: tensor(padded.ids, [rows, length], { device }),
    types: padded.types.some((type) => type !== 0) ? tensor(padded.types, [rows, length], { device }) : null,
    bias:
      padded.tokens === rows * length
        ? null
        : tensor(
            Float32Array.from(padded.mask, (text) => (text ? 0 : minusInfinity)),
            [rows, 1, 1, length],
            { device },
          ),
  }));
}

/** A text or pair as the model was trained to read it. */
export function encodeFor(
  model: { tokenizer: Tokenizer; encoding: Model["encoding"]; maxLength: number },
  texts: readonly string[],
): Encoded {
  return model.encoding === "word" ? model.tokenizer.encodeWords(texts, model.maxLength) : model.tokenizer.encode(texts, model.maxLength);
}
