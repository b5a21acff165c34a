import { type Model, tokenizeFor } from "../models/index.js";
import type { Example } from "../tasks/task.js";
import { bucketLength } from "../text/batch.js";
import type { Encoding, WordLevelEncoding } from "../text/encoding.js";

/** An example as the model reads it. */
export interface TokenizedExample {
  readonly example: Example;
  readonly encoding: Encoding | WordLevelEncoding;
}

/** Examples encoded once, with their lengths at hand. */
export interface Dataset {
  readonly items: readonly TokenizedExample[];
  readonly lengths: Int32Array;
  /** How many texts were cut to the maximum length. */
  readonly truncatedCount: number;
  /** Tokens that a batch may be long: no text is longer, and the model may have no more positions. */
  readonly maxLength?: number;
}

export function toDataset(
  model: Pick<Model, "tokenizer" | "tokenization" | "maxLength" | "architecture">,
  examples: readonly Example[],
): Dataset {
  const items = examples.map((example) => ({ example, encoding: tokenizeFor(model, example.texts) }));
  return {
    items,
    lengths: Int32Array.from(items, (item) => item.encoding.ids.length),
    truncatedCount: items.reduce((count, item) => count + (item.encoding.truncated ? 1 : 0), 0),
    // In steps that a GPU reads at once.
    maxLength: Math.min(bucketLength(model.maxLength, 8), model.architecture.config.maxLength),
  };
}

/** The words of an item; an error where it was not read word by word. */
export function getWordLevelEncoding(item: TokenizedExample): WordLevelEncoding {
  if (!("words" in item.encoding)) throw new Error("the text was not read with the word encoding");
  return item.encoding;
}
