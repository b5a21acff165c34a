import { createHash } from "node:crypto";
import { canonicalize } from "./canonicalize.js";
import type { Tokenizer } from "./encoding.js";

/** The normalization of texts before a model's tokenizer. */
export const normalizations = ["none", "canonical"] as const;
export type Normalization = (typeof normalizations)[number];

/** Increase it if canonical forms change: caches and journals depend on them. */
const canonicalVersion = 3;

/**
 * A tokenizer that reads the canonical form of every text. So texts with the same canonical form
 * have the same tokens, and the same answer, wherever the model is used.
 */
export function createCanonicalTokenizer(tokenizer: Tokenizer): Tokenizer {
  const toCanonical = (texts: readonly string[]): string[] => texts.map(canonicalize);
  return {
    vocabSize: tokenizer.vocabSize,
    special: tokenizer.special,
    hash: createHash("sha256").update(`${tokenizer.hash} canonical ${canonicalVersion}`).digest("hex"),
    encode: (texts, maxLength) => tokenizer.encode(toCanonical(texts), maxLength),
    encodeAll: (inputs, maxLength) => tokenizer.encodeAll(inputs.map(toCanonical), maxLength),
    // The offsets are those of the canonical form.
    encodeWithOffsets: (texts, maxLength) => tokenizer.encodeWithOffsets(toCanonical(texts), maxLength),
    encodeWords: (texts, maxLength) => tokenizer.encodeWords(toCanonical(texts), maxLength),
    wordToId: (word) => tokenizer.wordToId(canonicalize(word)),
    idsToTokens: (ids) => tokenizer.idsToTokens(ids),
    toJson: () => tokenizer.toJson(),
  };
}
