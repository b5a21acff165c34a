import { disagreementMetric } from "../evaluation/metric-table.js";
import { noGrad, scope, type Tensor } from "../tensor/index.js";
import type { BatchContext } from "../train/index.js";

/** The mean task loss of two dropout passes: the task loss of R-Drop and ROSE. */
export function computeTwoPassLoss(context: BatchContext): Tensor {
  const [first, second] = context.passTwice("clean", "again");
  const { labels } = context.batch;
  context.log(disagreementMetric, computeDisagreement(first.logits, second.logits));
  const { taskLoss } = context.training;
  return taskLoss(first.logits, labels).add(taskLoss(second.logits, labels)).mul(0.5);
}

function computeDisagreement(first: Tensor, second: Tensor): Tensor {
  return scope(() => noGrad(() => first.argmax(-1).ne(second.argmax(-1)).to("float32").mean()));
}
