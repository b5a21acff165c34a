import { betaQuantile, normalQuantile } from "./special-functions.js";
import type { Interval } from "./statistics.js";

/** The examples that only one of two models gets right, out of all. */
export interface PairedCounts {
  readonly onlyFirst: number;
  readonly onlySecond: number;
  readonly examples: number;
}

/** The level of one-sided tests. */
const significance = 0.05;

/**
 * The continuity correction of the score, in examples. Without it, a true difference at the margin is
 * beyond a bound in up to 6.7% of samples, with half an example in 5.4%, and with this one in at most
 * 4.6% (exact enumeration of up to 260 examples).
 */
const correction = 0.75;

/**
 * Tango's score (1998) of the hypothesis that the accuracies of two models on the same examples
 * differ by `difference`. `shift` examples are added to the observed difference.
 */
function computeScore(
  { onlyFirst: b, onlySecond: c, examples: n }: PairedCounts,
  difference: number,
  shift: number,
): number {
  const linear = -b - c + (2 * n - b + c) * difference;
  const constant = -c * difference * (1 - difference);
  const q = (Math.sqrt(Math.max(0, linear * linear - 8 * n * constant)) - linear) / (4 * n);
  const variance = n * (2 * q + difference * (1 - difference));
  const numerator = b - c - n * difference + shift;
  return numerator === 0 ? 0 : numerator / Math.sqrt(Math.max(variance, Number.MIN_VALUE));
}

/** Finds where a decreasing function crosses zero. */
function bisect(evaluate: (x: number) => number, low: number, high: number): number {
  let [left, right] = [low, high];
  for (let i = 0; i < 60; i++) {
    const middle = (left + right) / 2;
    if (evaluate(middle) > 0) left = middle;
    else right = middle;
  }
  return (left + right) / 2;
}

/**
 * Computes one-sided 95% bounds of the accuracy of the first model minus that of the second from Tango's score. A
 * true difference exceeds them in at most 5% of samples. The examples that only one model gets right bound it, too: the difference is
 * at least minus the largest rate of losses. This bound is exact if there are only losses.
 */
export function computeDifferenceBounds(counts: PairedCounts): Interval & { readonly difference: number } {
  const { onlyFirst, onlySecond, examples } = counts;
  if (examples < 1) throw new RangeError("expected at least one example");
  const difference = (onlyFirst - onlySecond) / examples;
  const z = normalQuantile(1 - significance);
  return {
    difference,
    low: Math.max(
      bisect((delta) => computeScore(counts, delta, -correction) - z, -1, difference),
      -computeLargestRate(onlySecond, examples),
    ),
    high: Math.min(
      bisect((delta) => computeScore(counts, delta, correction) + z, difference, 1),
      computeLargestRate(onlyFirst, examples),
    ),
  };
}

/** The one-sided Clopper-Pearson bound. */
function computeLargestRate(count: number, examples: number): number {
  return count === examples ? 1 : betaQuantile(1 - significance, count + 1, examples - count);
}

/**
 * - passed: the first model is at most `margin` worse (95% certain)
 * - regressed: it is more than `margin` worse (95% certain)
 * - unresolved: the examples do not tell
 */
export type GateVerdict = "passed" | "regressed" | "unresolved";

/** Compares bounds with the largest drop that is allowed. */
export function judgeDrop({ low, high }: Interval, margin: number): GateVerdict {
  if (low > -margin) return "passed";
  return high < -margin ? "regressed" : "unresolved";
}

/**
 * Estimates how many examples show that a model is at most `margin` worse (80% power), if the
 * models disagree as often as on these examples. Infinity if the drop is not smaller than the
 * margin.
 */
export function estimateNeededExamples(counts: PairedCounts, margin: number): number {
  const { onlyFirst, onlySecond, examples } = counts;
  const z = normalQuantile(1 - significance);
  // If the models never disagree, the bound is 1 - 0.05^(1 / n).
  const smallest = margin > 0 ? Math.log(significance) / Math.log1p(-margin) : Number.POSITIVE_INFINITY;
  const room = margin + (onlyFirst - onlySecond) / examples;
  if (room <= 0) return Number.POSITIVE_INFINITY;
  const deviations = z + normalQuantile(0.8);
  const uncorrected = (deviations * deviations * ((onlyFirst + onlySecond) / examples)) / (room * room);
  const needed = uncorrected + (2 * correction) / room;
  return Math.floor(Math.max(smallest, needed)) + 1;
}
