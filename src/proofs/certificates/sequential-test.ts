import { logGamma } from "../../evaluation/special-functions.js";
import type { Interval } from "../../evaluation/statistics.js";

const logBeta = (a: number, b: number): number => logGamma(a) + logGamma(b) - logGamma(a + b);

/**
 * The logarithm of the evidence against the probability `q`, after `successes` of `count` draws:
 *
 *     ln B(A + 1/2, N - A + 1/2) - ln B(1/2, 1/2) - A ln q - (N - A) ln(1 - q)
 *
 * It is the likelihood of a Beta(1/2, 1/2) mixture over that of q. If q is true, this ratio is a
 * martingale with mean 1. By Ville's inequality it ever reaches 1 / alpha with probability at most
 * alpha, so one may look after every draw and stop at any time (Voracek, NeurIPS 2024).
 */
export function computeLogEvidence(successes: number, count: number, q: number): number {
  return computeLogMixture(successes, count) - computeLogLikelihood(successes, count, q);
}

function computeLogMixture(successes: number, count: number): number {
  return logBeta(successes + 0.5, count - successes + 0.5) - logBeta(0.5, 0.5);
}

function computeLogLikelihood(successes: number, count: number, q: number): number {
  const failures = count - successes;
  return (successes === 0 ? 0 : successes * Math.log(q)) + (failures === 0 ? 0 : failures * Math.log1p(-q));
}

/**
 * The p-value of the hypothesis that the probability is at most `threshold`. It is valid at any
 * time: the smallest of all draws is below alpha with probability at most alpha.
 */
export function computeSequentialPValue(successes: number, count: number, threshold: number): number {
  if (threshold >= 1 || successes <= threshold * count) return 1;
  return Math.min(1, Math.exp(-computeLogEvidence(successes, count, threshold)));
}

/**
 * The probabilities that the evidence does not exclude: a confidence sequence, which contains the
 * true one at all times with probability 1 - alpha. A threshold below `low` is what the sequential
 * test accepts, and a threshold above `high` is what its mirror gives up. Both ends are rounded
 * outward.
 */
export function computeConfidenceSequence(successes: number, count: number, alpha: number): Interval {
  const limit = computeLogMixture(successes, count) + Math.log(alpha);
  const isExcluded = (q: number): boolean => computeLogLikelihood(successes, count, q) <= limit;
  const proportion = count === 0 ? 0.5 : successes / count;
  const bisect = (outside: number): number => {
    if (successes === (outside === 0 ? 0 : count)) return outside;
    let [excluded, included] = [outside, proportion];
    for (let i = 0; i < 60; i++) {
      const middle = (excluded + included) / 2;
      if (isExcluded(middle)) excluded = middle;
      else included = middle;
    }
    return excluded;
  };
  return { low: bisect(0), high: bisect(1) };
}
