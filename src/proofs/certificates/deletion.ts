import type { WordEdits } from "./edits.js";
import type { TextFields } from "./scoring.js";
import type { NoiseKernel } from "./smoothing.js";
import { mapFieldWords, splitFields } from "./words.js";

/** The noise of CERT-ED: each word of a text is deleted with probability `p`. */
export function createDeletionKernel(texts: TextFields, p: number, editableFields?: readonly number[]): NoiseKernel {
  checkProbability(p);
  const fields = splitFields(texts, editableFields);
  return (rng) => mapFieldWords(fields, (word) => (rng.next() < p ? null : word));
}

/**
 * The probability p_A that certifies a prediction if `removed` words of the text go and `added`
 * words come, at any places; a substitution is one of each. With probability p^removed the noise
 * deletes all words that go, and with p^added all words that come. What is left has one and the
 * same distribution Q, so
 *
 *     p_A(x)  <= p^removed Q(A) + 1 - p^removed,
 *     p_A(x') >= p^added Q(A),
 *
 * and p_A(x') > 1/2 follows from p_A(x) > 1 - p^removed + p^(removed - added) / 2.
 */
export function computeDeletionThreshold(p: number, removed: number, added: number): number {
  checkProbability(p);
  return 1 - p ** removed + p ** (removed - added) / 2;
}

/**
 * The probability that certifies s substitutions and t insertions or deletions: the largest over
 * all mixtures of insertions and deletions. For r substitutions it is 1/2 + Delta_r with the bound
 * Delta_r = 1 - p^r of the total variation. It also covers any r word edits.
 */
export function computeEditThreshold(p: number, { substitutions, insertions }: WordEdits): number {
  const mixtures = Array.from({ length: insertions + 1 }, (_, deleted) =>
    computeDeletionThreshold(p, substitutions + deleted, substitutions + insertions - deleted),
  );
  return Math.max(...mixtures);
}

/**
 * Delta_r = 1 - p^r: the total variation between the noised texts of two texts r word edits apart.
 */
export function computeDeletionShift(p: number, edits: number): number {
  checkProbability(p);
  return 1 - p ** edits;
}

function checkProbability(p: number): void {
  if (!(p > 0 && p < 1)) throw new RangeError(`expected a deletion probability between 0 and 1, received ${p}`);
}
