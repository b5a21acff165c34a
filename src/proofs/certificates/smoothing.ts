import type { Rng } from "../../base/rng.js";
import { holmCorrection } from "../../evaluation/statistics.js";
import { findLargestScore, isUndecided, type ScoringProcess, type TextFields } from "./scoring.js";
import { computeConfidenceSequence, computeSequentialPValue } from "./sequential-test.js";

/** Draws a noised text. It must noise the complete text; the tokenizer truncates the result. */
export type NoiseKernel = (rng: Rng) => TextFields;

/** Options of the estimate of a smoothed prediction. */
export interface SmoothingOptions {
  readonly numLabels: number;
  /** The probability that the certificate of one text is wrong. */
  readonly alpha: number;
  /** Draws that choose the class. They are not used for the bound. */
  readonly classSamples: number;
  /** The most draws for the bound. */
  readonly maxSamples: number;
  /** Draws per round. */
  readonly batchSize: number;
  /** Draws whose two largest scores differ by less are not successes. Default: 0. */
  readonly minMargin?: number | undefined;
}

/** The knowledge about a smoothed prediction, with confidence 1 - alpha. */
export interface SmoothedCertificate {
  /** The class that the class samples chose. */
  readonly label: number;
  /** A lower bound of the probability p_A of this class under the noise. */
  readonly lowerBound: number;
  /** For each threshold, whether p_A is above it. */
  readonly certified: readonly boolean[];
  /** For each threshold, the p-value of the hypothesis that p_A is not above it. */
  readonly pValues: readonly number[];
  /** Draws for the bound, and how many of them had the label. */
  readonly samples: number;
  readonly successes: number;
  /** Draws for the bound that were near ties, which are not counted as successes. */
  readonly undecided: number;
}

/**
 * Certifies a smoothed prediction g(x) = argmax over c of P[f(noise(x)) = c] for increasing
 * thresholds of p_A. The class is chosen on draws of its own: if the draws of the bound chose it,
 * the bound would be that of a maximum. Draws continue until every threshold is decided, above or
 * below, so an easy text needs few. Each draw has a named stream, so the result does not depend on
 * the batch size.
 *
 * The certificate is about the smoothed model, not about f. A model that is served must use fresh
 * draws, and must abstain if `certified` is false for the threshold 1/2.
 */
export function* certifySmoothed(
  draw: NoiseKernel,
  thresholds: readonly number[],
  options: SmoothingOptions,
  rng: Rng,
): ScoringProcess<SmoothedCertificate> {
  const { alpha, classSamples, maxSamples, batchSize, numLabels, minMargin = 0 } = options;
  const drawAll = (name: string, start: number, count: number): TextFields[] =>
    Array.from({ length: count }, (_, i) => draw(rng.fork(name, start + i)));
  const counts = new Array<number>(numLabels).fill(0);
  for (const row of yield drawAll("class", 0, classSamples)) counts[findLargestScore(row)]! += 1;
  const label = findLargestScore(counts);
  const pValues = thresholds.map(() => 1);
  let [samples, successes, undecided, lowerBound, upperBound] = [0, 0, 0, 0, 1];
  const isDecided = (threshold: number): boolean => threshold < lowerBound || threshold > upperBound || threshold >= 1;
  while (samples < maxSamples && !thresholds.every(isDecided)) {
    const rows = yield drawAll("bound", samples, Math.min(batchSize, maxSamples - samples));
    for (const row of rows) {
      const isTie = isUndecided(row, minMargin);
      samples++;
      undecided += Number(isTie);
      successes += Number(!isTie && findLargestScore(row) === label);
    }
    const { low, high } = computeConfidenceSequence(successes, samples, alpha);
    // All intervals hold together, so their intersection holds, too.
    [lowerBound, upperBound] = [Math.max(lowerBound, low), Math.min(upperBound, high)];
    for (const [i, threshold] of thresholds.entries())
      pValues[i] = Math.min(pValues[i]!, computeSequentialPValue(successes, samples, threshold));
  }
  const certified = thresholds.map((threshold) => lowerBound > threshold);
  return { label, lowerBound, certified, pValues, samples, successes, undecided };
}

/**
 * Selects the certificates of a table that hold together with confidence 1 - alpha, from the
 * p-value of each text (Holm). It never selects fewer than the union bound, which has alpha / texts
 * per text.
 */
export function selectCertified(pValues: readonly number[], alpha: number): boolean[] {
  return holmCorrection(pValues).map((adjusted) => adjusted <= alpha);
}
