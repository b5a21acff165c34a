import { crossEntropy } from "../nn/index.js";
import type { Tensor } from "../tensor/index.js";
import type { Step } from "../train/index.js";

/** The mean cross-entropy of two dropout passes: R-Drop's task term, and the base that ROSE brings. */
export function twoPassTask(step: Step): Tensor {
  const [first, second] = step.pair("clean", "again");
  const { labels } = step.batch;
  return crossEntropy(first.logits, labels).add(crossEntropy(second.logits, labels)).mul(0.5);
}
