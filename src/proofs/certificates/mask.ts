import type { TextFields } from "./scoring.js";
import type { NoiseKernel } from "./smoothing.js";
import { countWords, mapFieldWords, splitFields } from "./words.js";

/** How words are masked. */
export interface MaskOptions {
  /** The fraction of words that are masked. */
  readonly rate: number;
  /** The word that replaces them, such as the mask token of the model. */
  readonly mask: string;
  readonly editableFields?: readonly number[] | undefined;
}

/**
 * The number of words that stay. It depends on the length alone, which substitutions preserve.
 */
export function countKeptWords(length: number, rate: number): number {
  return Math.max(0, Math.min(length, Math.round(length * (1 - rate))));
}

/** The noise of RanMASK: a random subset of the words stays, and the mask replaces all others. */
export function createMaskKernel(texts: TextFields, { rate, mask, editableFields }: MaskOptions): NoiseKernel {
  const fields = splitFields(texts, editableFields);
  const length = countWords(fields);
  const kept = countKeptWords(length, rate);
  return (rng) => {
    const stays = new Set(rng.shuffle(Array.from({ length }, (_, i) => i)).slice(0, kept));
    return mapFieldWords(fields, (word, i) => (stays.has(i) ? word : mask));
  };
}

/**
 * The total variation between the noised texts of two texts that differ in r words:
 *
 *     Delta_r = 1 - C(L - r, kept) / C(L, kept),
 *
 * the probability that at least one of the r words stays. Some published code multiplies it by an
 * estimated factor lambda. That has no confidence bound, so here lambda is 1. A prediction is
 * certified for r substitutions if p_A > 1/2 + Delta_r.
 */
export function computeMaskShift(length: number, kept: number, substitutions: number): number {
  let allMasked = 1;
  for (let i = 0; i < Math.min(substitutions, length); i++) allMasked *= Math.max(0, length - kept - i) / (length - i);
  return 1 - allMasked;
}
