import { checkMaxLength, type Model, tokenizeAll } from "../models/index.js";
import type { Example } from "../tasks/example.js";
import { bucketLength } from "../text/batch.js";
import type { Encoding, WordLevelEncoding } from "../text/encoding.js";

export interface TokenizedExample {
  readonly example: Example;
  readonly encoding: Encoding | WordLevelEncoding;
}

export interface Dataset {
  readonly items: readonly TokenizedExample[];
  readonly lengths: Int32Array;
  readonly truncatedCount: number;
  /** Maximum padded length of a batch: the model may have no more positions. */
  readonly maxLength?: number;
}

export function toDataset(
  model: Pick<Model, "tokenizer" | "tokenization" | "maxLength" | "architecture">,
  examples: readonly Example[],
): Dataset {
  if (examples[0]) checkMaxLength(model, examples[0].texts.length);
  const encodings = tokenizeAll(
    model,
    examples.map(({ texts }) => texts),
  );
  const items = examples.map((example, index) => ({ example, encoding: encodings[index]! }));
  return {
    items,
    lengths: Int32Array.from(items, (item) => item.encoding.ids.length),
    truncatedCount: items.reduce((count, item) => count + (item.encoding.truncated ? 1 : 0), 0),
    // A multiple of 8 suits GPU kernels.
    maxLength: Math.min(bucketLength(model.maxLength, 8), model.architecture.config.maxLength),
  };
}

export function getWordLevelEncoding(item: TokenizedExample): WordLevelEncoding {
  if (!("words" in item.encoding)) throw new Error("This text was not tokenized at word level.");
  return item.encoding;
}
