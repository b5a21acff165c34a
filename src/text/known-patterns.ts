import { getCaseSensitiveWordPattern } from "./words.js";

const letter = "[\\p{L}\\p{M}\\p{N}]";

/** Combining marks that belong to no letter. Saved word-level models use this pattern. */
export const loneMarksPattern = `(?<!${letter})\\p{Mn}+(?!${letter})`;

/**
 * Characters that SentencePiece or its approximation in transformers.js reads as spaces or removes.
 * In `splitWords` each of them is a word. Saved word-level models use this pattern.
 */
export const spaceLikePattern = "[\u0001-\u0008\u000b\u000e-\u001f\u007f\u008f\u009f\u200b-\u200f\u2581\ufffd]";

/**
 * The regular expressions of tokenizers that may run. A hostile one, such as (a+)+$, makes the
 * package end the process, and no time limit of a thread can prevent it. These are linear for every
 * text: those of the supported families, of byte-level tokenizers, and those that we write.
 */
const knownPatterns: ReadonlySet<string> = new Set([
  // Runs of white space: ALBERT, DeBERTa, T5.
  " {2,}",
  "\\s+",
  "\\s{2,}|[\\n\\r\\t]",
  // GPT-2 and RoBERTa, written out.
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
  // GPT-4 and Llama 3.
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  // Qwen 2.
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  loneMarksPattern,
  spaceLikePattern,
  getCaseSensitiveWordPattern(false),
  getCaseSensitiveWordPattern(true),
]);

/** Returns true if a regular expression of a tokenizer is one of the known ones. */
export function isKnownPattern(pattern: string): boolean {
  return knownPatterns.has(pattern);
}
