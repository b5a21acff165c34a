import { computeClipFactor, globalNorm, hasFusedAdamW } from "../nn/index.js";
import { noGrad, type Tensor } from "../tensor/index.js";
import type { TrainingContext } from "./training-context.js";
import type { NamedTensors } from "./training-method.js";

// On a GPU, clipping, AdamW and the refresh of the low-precision weights are one pass over memory
// (`AdamW.updateAndCopy`), which reads the gradients in the compute dtype.

/**
 * Returns whether the update of a step can be fused: methods and other processes must not need its
 * gradients in float32 first.
 */
export function canFuseUpdate({ job, stack }: TrainingContext, numBatches: number): boolean {
  if (numBatches > 1 || job.ranks || stack.hasHook("gradients") || stack.hasHook("transformUpdates")) return false;
  return hasFusedAdamW(job.deviceConfig.device);
}

/**
 * Whether the low-precision weights are up to date after each step of a training. If not, because
 * a method may change the weights after the update, each step refreshes them first. This does not
 * depend on the step: a captured step relies on all others.
 */
function keepsCopiesCurrent(training: TrainingContext): boolean {
  return canFuseUpdate(training, 1) && !training.stack.hasHook("afterStep");
}

/** Refreshes the low-precision weights before a step, unless the last step has done it. */
export function refreshBeforeStep({ lowPrecisionWeights }: TrainingContext): void {
  if (lowPrecisionWeights && !lowPrecisionWeights.isCurrent) lowPrecisionWeights.refresh();
}

/** Makes the low-precision weights current after an update that did not write them. */
export function refreshAfterStep(training: TrainingContext): void {
  const { lowPrecisionWeights } = training;
  if (!lowPrecisionWeights || !keepsCopiesCurrent(training)) return;
  lowPrecisionWeights.refresh();
  lowPrecisionWeights.isCurrent = true;
}

/** Gradients before clipping, and how to clip them. */
export interface UnclippedGradients {
  readonly gradients: NamedTensors;
  readonly norm: Tensor;
  readonly clipFactor: Tensor | null;
}

/** Computes the norm and the clip factor, but changes no gradient. */
export function measureGradients(gradients: NamedTensors, maxGradNorm: number | null): UnclippedGradients {
  const norm = globalNorm([...gradients.values()]);
  return { gradients, norm, clipFactor: maxGradNorm === null ? null : computeClipFactor(norm, maxGradNorm) };
}

/** The clipped gradients in float32, for a method that reads them after the update. */
export function clipGradients({ gradients, clipFactor }: UnclippedGradients): NamedTensors {
  const clip = (gradient: Tensor): Tensor => (clipFactor ? gradient.mul(clipFactor) : gradient);
  return noGrad(() => new Map([...gradients].map(([name, gradient]) => [name, clip(gradient.to("float32"))])));
}

/** Applies a fused update. */
export function applyFusedUpdate(training: TrainingContext, { gradients, clipFactor }: UnclippedGradients): void {
  const { lowPrecisionWeights: copies, optimizer } = training;
  const isCurrent = keepsCopiesCurrent(training);
  optimizer.updateAndCopy(gradients, clipFactor, (parameter) =>
    isCurrent ? (copies?.getCopy(parameter)?.target ?? null) : null,
  );
  if (copies) copies.isCurrent = isCurrent;
}
