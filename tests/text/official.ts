import type { TruncationOptions } from "tokenizers";
import { Tokenizer as Official } from "tokenizers";

/** A text or a pair of texts. */
export type Texts = readonly [string] | readonly [string, string];

/** Loads the official tokenizer without the padding and truncation settings of its file. */
export function loadOfficial(json: string, maxLength?: number): Official {
  const tokenizer = Official.fromString(json);
  tokenizer.disablePadding();
  tokenizer.disableTruncation();
  const options = { strategy: "LongestFirst" } as unknown as TruncationOptions;
  if (maxLength !== undefined) tokenizer.setTruncation(maxLength, options);
  return tokenizer;
}

/** Returns the token IDs and token types of many texts. */
export async function encodeAll(
  tokenizer: Official,
  texts: readonly Texts[],
): Promise<{ ids: number[]; types: number[] }[]> {
  const singles = texts.every((item) => item.length === 1);
  // The batch method accepts only single texts.
  const encodings = singles
    ? await tokenizer.encodeBatch(texts.map(([text]) => text))
    : await Promise.all(texts.map(([first, second]) => tokenizer.encode(first, second)));
  return encodings.map((encoding) => ({ ids: encoding.getIds(), types: encoding.getTypeIds() }));
}
