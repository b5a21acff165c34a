import { normalQuantile } from "./special-functions.js";

/** The examples that only one of two models gets right, out of all. */
export interface PairedCounts {
  readonly onlyFirst: number;
  readonly onlySecond: number;
  readonly examples: number;
}

/** The level of one-sided tests. */
const significance = 0.05;

/**
 * Tango's score (1998) of the hypothesis that the accuracies of two models on the same examples
 * differ by `difference`. Unlike a normal approximation, it also holds if the models never
 * disagree.
 */
function computeScore({ onlyFirst: b, onlySecond: c, examples: n }: PairedCounts, difference: number): number {
  const linear = -b - c + (2 * n - b + c) * difference;
  const constant = -c * difference * (1 - difference);
  const q = (Math.sqrt(Math.max(0, linear * linear - 8 * n * constant)) - linear) / (4 * n);
  const variance = n * (2 * q + difference * (1 - difference));
  const numerator = b - c - n * difference;
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

/** One-sided 95% bounds of the accuracy of the first model minus that of the second. */
export interface DifferenceBounds {
  readonly difference: number;
  readonly low: number;
  readonly high: number;
}

/** Computes bounds of a paired difference from Tango's score. */
export function computeDifferenceBounds(counts: PairedCounts): DifferenceBounds {
  const { onlyFirst, onlySecond, examples } = counts;
  if (examples < 1) throw new RangeError("expected at least one example");
  const difference = (onlyFirst - onlySecond) / examples;
  const z = normalQuantile(1 - significance);
  return {
    difference,
    low: bisect((delta) => computeScore(counts, delta) - z, -1, difference),
    high: bisect((delta) => computeScore(counts, delta) + z, difference, 1),
  };
}

/**
 * - passed: the first model is at most `margin` worse (95% certain)
 * - regressed: it is more than `margin` worse (95% certain)
 * - unresolved: the examples do not tell
 */
export type GateVerdict = "passed" | "regressed" | "unresolved";

/** Compares bounds with the largest drop that is allowed. */
export function judgeDrop({ low, high }: Pick<DifferenceBounds, "low" | "high">, margin: number): GateVerdict {
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
  // If the models never disagree, the bound is z² / (n + z²).
  const smallest = margin > 0 ? (z * z * (1 - margin)) / margin : Number.POSITIVE_INFINITY;
  const room = margin + (onlyFirst - onlySecond) / examples;
  if (room <= 0) return Number.POSITIVE_INFINITY;
  const deviations = z + normalQuantile(0.8);
  const needed = (deviations * deviations * ((onlyFirst + onlySecond) / examples)) / (room * room);
  return Math.ceil(Math.max(smallest, needed) + 1);
}
