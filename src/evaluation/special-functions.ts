import { createRequire } from "node:module";
import type Erfc from "@stdlib/math-base-special-erfc";
import type GammaLn from "@stdlib/math-base-special-gammaln";
import type QuantileOfBeta from "@stdlib/stats-base-dists-beta-quantile";
import type QuantileOfNormal from "@stdlib/stats-base-dists-normal-quantile";
import type CdfOfT from "@stdlib/stats-base-dists-t-cdf";
import type QuantileOfT from "@stdlib/stats-base-dists-t-quantile";

// Loading these packages reads more than 400 files, so each is loaded at its first use.
const require = createRequire(import.meta.url);
function lazy<F>(name: string): () => F {
  let loaded: F | undefined;
  return () => {
    loaded ??= require(`@stdlib/${name}`) as F;
    return loaded;
  };
}
const getGammaLn = lazy<typeof GammaLn>("math-base-special-gammaln");
const getErfc = lazy<typeof Erfc>("math-base-special-erfc");
const getCdfOfT = lazy<typeof CdfOfT>("stats-base-dists-t-cdf");
const getQuantileOfT = lazy<typeof QuantileOfT>("stats-base-dists-t-quantile");
const getQuantileOfBeta = lazy<typeof QuantileOfBeta>("stats-base-dists-beta-quantile");
const getQuantileOfNormal = lazy<typeof QuantileOfNormal>("stats-base-dists-normal-quantile");

/** The logarithm of the gamma function. */
export function logGamma(x: number): number {
  return getGammaLn()(x);
}

/** P(T > t) for Student's t distribution. The lower tail of -t keeps all digits of small values. */
export function studentTail(t: number, degrees: number): number {
  return getCdfOfT()(-t, degrees);
}

/** The p-quantile of Student's t distribution. */
export function studentQuantile(p: number, degrees: number): number {
  return getQuantileOfT()(p, degrees);
}

/** The p-quantile of the beta distribution. */
export function betaQuantile(p: number, alpha: number, beta: number): number {
  return getQuantileOfBeta()(p, alpha, beta);
}

/** The p-quantile of the standard normal distribution. */
export function normalQuantile(p: number): number {
  return getQuantileOfNormal()(p, 0, 1);
}

/** P(X > x) for the chi-squared distribution with one degree of freedom. */
export function chiSquareTail(x: number): number {
  return x <= 0 ? 1 : getErfc()(Math.sqrt(x / 2));
}
