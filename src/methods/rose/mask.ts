import { arange, onesLike, operator, sort, type Tensor, zerosLike } from "../../tensor/index.js";
import { computeQuantile, kthSmallest, scatter, stableSort } from "../quantile.js";

const cumulativeSum = operator<(self: Tensor, dim: number) => Tensor>("cumsum");

/** Eq. 3 counts ranks; the released code interpolates a quantile of the risks. */
type ThresholdRule = "rank" | "quantile";

/** Counts the ranks i of n with i/n <= fraction. */
export function countWithinFraction(fraction: number, n: number): number {
  const rounded = Math.round(fraction * n);
  return rounded / n <= fraction ? rounded : rounded - 1;
}

/** Eq. 3: 1 for the fraction of tensors with the lowest risks, 0 for the rest. Ties keep order. */
export function computeTensorMask(risks: Tensor, updateRatio: number | "auto", rule: ThresholdRule): Tensor {
  if (updateRatio !== "auto" && rule === "quantile") return selectAtMost(risks, computeQuantile(risks, updateRatio));
  const n = risks.size(0);
  const count = updateRatio === "auto" ? computeOtsuCount(risks) : countWithinFraction(updateRatio, n);
  const order = stableSort(risks, true, 0, false)[1];
  return scatter(zerosLike(risks), 0, order, arange(n, risks.device).lt(count).to("float32"));
}

/** Eq. 3 over single elements, by one threshold. All elements at the threshold are selected. */
export function computeElementMask(risks: Tensor, updateRatio: number, rule: ThresholdRule): Tensor {
  if (rule === "quantile") return selectAtMost(risks, computeQuantile(risks, updateRatio));
  const count = countWithinFraction(updateRatio, risks.size(0));
  return count === 0 ? zerosLike(risks) : selectAtMost(risks, kthSmallest(risks, count));
}

function selectAtMost(risks: Tensor, threshold: Tensor): Tensor {
  return risks.le(threshold).to("float32");
}

/** Risks span orders of magnitude, so their logarithms are compared. */
function computeLogRisks(risks: Tensor): Tensor {
  return risks.clamp(1e-30, 1e30).log();
}

/** The range of `updateRatio: auto`: the paper's grid. */
const autoFractionRange = [0.1, 0.9] as const;

/** `updateRatio: auto` (not in the paper): Otsu's threshold of the log-risks. */
export function computeOtsuCount(risks: Tensor): Tensor {
  const n = risks.size(0);
  const minCount = Math.max(1, Math.ceil(autoFractionRange[0] * n));
  const maxCount = Math.max(minCount, countWithinFraction(autoFractionRange[1], n));
  const sums = cumulativeSum(sort(computeLogRisks(risks), 0, false)[0], 0); // [n]
  const counts = arange(n, risks.device).add(1).to("float32");
  const expectedSums = counts.mul(sums.select(0, n - 1)).div(n);
  const betweenVariance = sums
    .sub(expectedSums)
    .square()
    .div(counts.mul(counts.neg().add(n))); // n * variance between the groups, for every split
  return betweenVariance
    .narrow(0, minCount - 1, maxCount - minCount + 1)
    .argmax(0)
    .add(minCount);
}

/** The fraction of the variance of the log-risks that is between selected and frozen entries. */
export function computeSeparation(risks: Tensor, mask: Tensor): Tensor {
  const logRisks = computeLogRisks(risks);
  const centered = logRisks.sub(logRisks.mean());
  const numSelected = mask.sum();
  const numFrozen = onesLike(mask).sub(mask).sum();
  const sum = centered.mul(mask).sum();
  // The sums of both groups cancel, so n * variance = sum^2 (1/selected + 1/frozen).
  // The sum is 0 if a group is empty.
  const between = sum.square().mul(numSelected.clamp(1).reciprocal().add(numFrozen.clamp(1).reciprocal()));
  return between.div(centered.square().sum().clamp(1e-12));
}

/** `gamma: auto` (not in the paper): the mask that separates its risks better weighs more. */
export function computeAutoGamma(first: Tensor, second: Tensor): Tensor {
  const epsilon = 1e-6;
  return first.add(epsilon).div(first.add(second).add(2 * epsilon));
}
