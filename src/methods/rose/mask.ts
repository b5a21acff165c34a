import { arange, onesLike, operator, sort, type Tensor, zerosLike } from "../../tensor/index.js";
import { computeQuantile, kthSmallest } from "../quantile.js";

const stableSort = operator<(self: Tensor, stable: boolean, dim: number, descending: boolean) => [Tensor, Tensor]>(
  "sort",
  "stable",
);
const scatter = operator<(self: Tensor, dim: number, index: Tensor, source: Tensor) => Tensor>("scatter", "src");
const cumulativeSum = operator<(self: Tensor, dim: number) => Tensor>("cumsum");

/** How a share becomes a threshold: eq. 3 counts ranks, the released code takes an interpolated quantile of the risks. */
export type ThresholdRule = "rank" | "quantile";

/** How many of n have a rank i with i/n <= share. */
export function countWithinFraction(fraction: number, n: number): number {
  const near = Math.round(fraction * n);
  return near / n <= fraction ? near : near - 1;
}

/** 1 for the share of tensors of least risk, 0 for the rest (eq. 3). Equal risks are ranked in the order of the parameters. */
export function computeTensorMask(risks: Tensor, keep: number | "auto", rule: ThresholdRule): Tensor {
  if (keep !== "auto" && rule === "quantile") return maskAtMost(risks, computeQuantile(risks, keep));
  const n = risks.size(0);
  const count = keep === "auto" ? computeOtsuCount(risks) : countWithinFraction(keep, n);
  const order = stableSort(risks, true, 0, false)[1];
  return scatter(zerosLike(risks), 0, order, arange(n, risks.device).lt(count).to("float32"));
}

/** The same over single elements, too many to sort: one threshold, at which equal risks all stay. */
export function computeElementMask(risks: Tensor, keep: number, rule: ThresholdRule): Tensor {
  if (rule === "quantile") return maskAtMost(risks, computeQuantile(risks, keep));
  const count = countWithinFraction(keep, risks.size(0));
  return count === 0 ? zerosLike(risks) : maskAtMost(risks, kthSmallest(risks, count));
}

function maskAtMost(risks: Tensor, threshold: Tensor): Tensor {
  return risks.le(threshold).to("float32");
}

/** Risks span orders of magnitude, so their logarithms are what is compared. */
function computeLogRisks(risks: Tensor): Tensor {
  return risks.clamp(1e-30, 1e30).log();
}

/** Shares between which `keep: auto` chooses: the paper's grid. */
const autoFractionRange = [0.1, 0.9] as const;

/**
 * `keep: auto` (beyond the paper): how many are kept where the risks fall into two groups, low and high, that differ most: the cut
 * with the largest variance between the groups' log-risks (Otsu's threshold), within the paper's grid of 10 % to 90 %.
 */
export function computeOtsuCount(risks: Tensor): Tensor {
  const n = risks.size(0);
  const minCount = Math.max(1, Math.ceil(autoFractionRange[0] * n));
  const maxCount = Math.max(minCount, countWithinFraction(autoFractionRange[1], n));
  const sums = cumulativeSum(sort(computeLogRisks(risks), 0, false)[0], 0); // [n]
  const counts = arange(n, risks.device).add(1).to("float32");
  const expected = counts.mul(sums.select(0, n - 1)).div(n);
  const between = sums
    .sub(expected)
    .square()
    .div(counts.mul(counts.neg().add(n))); // n * variance between, at every cut
  return between
    .narrow(0, minCount - 1, maxCount - minCount + 1)
    .argmax(0)
    .add(minCount);
}

/** Which part of the log-risks' variance lies between the kept and the frozen: 0 where the mask tells nothing, 1 where all. */
export function computeSeparation(risks: Tensor, mask: Tensor): Tensor {
  const logs = computeLogRisks(risks);
  const centered = logs.sub(logs.mean());
  const kept = mask.sum();
  const frozen = onesLike(mask).sub(mask).sum();
  const sum = centered.mul(mask).sum();
  // The two sums cancel, so that the variance between is sum² (1/kept + 1/frozen) / n; with one group empty the sum is 0.
  const between = sum.square().mul(kept.clamp(1).reciprocal().add(frozen.clamp(1).reciprocal()));
  return between.div(centered.square().sum().clamp(1e-12));
}

/** `gamma: auto` (beyond the paper): the mask that separates its risks more clearly weighs more. */
export function computeAutoGamma(first: Tensor, second: Tensor): Tensor {
  const nothing = 1e-6;
  return first.add(nothing).div(first.add(second).add(2 * nothing));
}
