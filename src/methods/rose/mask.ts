import { arange, foreachNorm, onesLike, operator, stack, type Tensor, where, zerosLike } from "../../tensor/index.js";
import { computeQuantile } from "../quantile.js";

const stableSort = operator<(self: Tensor, stable: boolean, dim: number, descending: boolean) => [Tensor, Tensor]>(
  "sort",
  "stable",
);
const scatter = operator<(self: Tensor, dim: number, index: Tensor, source: Tensor) => Tensor>("scatter", "src");

/** Eq. 2: the norm of each tensor: [tensor]. */
export function computeNorms(tensors: readonly Tensor[]): Tensor {
  return stack(foreachNorm(tensors, 2), 0);
}

/** Eq. 4: |scale * ||g|| / ||m|| - 1| with scale = 1 - beta1; 1 if there is no average yet. */
export function computeSecondOrderRisks(gradientNorms: Tensor, momentNorms: Tensor, scale: number): Tensor {
  return where(momentNorms.eq(0), onesLike(momentNorms), gradientNorms.mul(scale).div(momentNorms).sub(1).abs());
}

/** Counts the ranks i of n with i/n <= fraction. */
export function countWithinFraction(fraction: number, n: number): number {
  const rounded = Math.round(fraction * n);
  return rounded / n <= fraction ? rounded : rounded - 1;
}

/**
 * Eq. 3: 1 for the fraction of tensors with the lowest risks, 0 for the rest. It counts ranks, and ties keep their
 * order; the released code interpolates a quantile of the risks.
 */
export function computeTensorMask(risks: Tensor, updateRatio: number, rule: "rank" | "quantile"): Tensor {
  if (rule === "quantile") return risks.le(computeQuantile(risks, updateRatio)).to("float32");
  const n = risks.size(0);
  const order = stableSort(risks, true, 0, false)[1];
  const isSelected = arange(n, risks.device).lt(countWithinFraction(updateRatio, n));
  return scatter(zerosLike(risks), 0, order, isSelected.to("float32"));
}
