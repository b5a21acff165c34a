import erfc from "@stdlib/math-base-special-erfc";
import gammaln from "@stdlib/math-base-special-gammaln";
import quantileOfBeta from "@stdlib/stats-base-dists-beta-quantile";
import quantileOfNormal from "@stdlib/stats-base-dists-normal-quantile";
import cdfOfT from "@stdlib/stats-base-dists-t-cdf";
import quantileOfT from "@stdlib/stats-base-dists-t-quantile";

/** The logarithm of the gamma function. */
export const logGamma: (x: number) => number = gammaln;

/** P(T > t) for Student's t distribution. The lower tail of -t keeps all digits of small values. */
export function studentTail(t: number, degrees: number): number {
  return cdfOfT(-t, degrees);
}

/** The p-quantile of Student's t distribution. */
export function studentQuantile(p: number, degrees: number): number {
  return quantileOfT(p, degrees);
}

/** The p-quantile of the beta distribution. */
export function betaQuantile(p: number, alpha: number, beta: number): number {
  return quantileOfBeta(p, alpha, beta);
}

/** The p-quantile of the standard normal distribution. */
export function normalQuantile(p: number): number {
  return quantileOfNormal(p, 0, 1);
}

/** P(X > x) for the chi-squared distribution with one degree of freedom. */
export function chiSquareTail(x: number): number {
  return x <= 0 ? 1 : erfc(Math.sqrt(x / 2));
}
