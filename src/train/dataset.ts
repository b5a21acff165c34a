import { encodeFor, type Model } from "../models/index.js";
import type { Example } from "../tasks/task.js";
import { bucketLength } from "../text/batch.js";
import type { Encoded, WordEncoded } from "../text/encoding.js";

/** An example as the model reads it. */
export interface Item {
  readonly example: Example;
  readonly encoded: Encoded | WordEncoded;
}

/** Examples encoded once, with their lengths at hand. */
export interface Dataset {
  readonly items: readonly Item[];
  readonly lengths: Int32Array;
  /** How many texts were cut to the maximum length. */
  readonly truncated: number;
  /** Tokens that a batch may be long: no text is longer, and the model may have no more positions. */
  readonly longest?: number;
}

export function toDataset(model: Pick<Model, "tokenizer" | "encoding" | "maxLength" | "shape">, examples: readonly Example[]): Dataset {
  const items = examples.map((example) => ({ example, encoded: encodeFor(model, example.texts) }));
  return {
    items,
    lengths: Int32Array.from(items, (item) => item.encoded.ids.length),
    truncated: items.reduce((count, item) => count + (item.encoded.truncated ? 1 : 0), 0),
    // In steps that a GPU reads at once.
    longest: Math.min(bucketLength(model.maxLength, 8), model.shape.config.maxLength),
  };
}

/** The words of an item; an error where it was not read word by word. */
export function wordsOf(item: Item): WordEncoded {
  if (!("words" in item.encoded)) throw new Error("the text was not read with the word encoding");
  return item.encoded;
}
