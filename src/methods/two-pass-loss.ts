import { crossEntropy } from "../nn/index.js";
import { noGrad, scope, type Tensor } from "../tensor/index.js";
import type { BatchContext } from "../train/index.js";

/** The mean cross-entropy of two dropout passes: R-Drop's task term, and the base that ROSE brings. */
export function computeTwoPassLoss(step: BatchContext): Tensor {
  const [first, second] = step.passTwice("clean", "again");
  const { labels } = step.batch;
  step.log(disagreementMetric, computeDisagreement(first.logits, second.logits));
  return crossEntropy(first.logits, labels).add(crossEntropy(second.logits, labels)).mul(0.5);
}

/** The event's name for the share of predictions that differ between two dropouts (ROSE table 4). */
export const disagreementMetric = "disagreement";

/** The share of examples whose predicted class differs. */
export function computeDisagreement(first: Tensor, second: Tensor): Tensor {
  return scope(() => noGrad(() => first.argmax(-1).ne(second.argmax(-1)).to("float32").mean()));
}
