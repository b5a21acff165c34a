import { type AdamW, clipGradNorm_, computeClipFactor, globalNorm, hasFusedAdamW } from "../nn/index.js";
import { noGrad, type Tensor } from "../tensor/index.js";
import type { MethodStack } from "./method-stack.js";
import type { LowPrecisionWeights } from "./mixed-precision.js";
import type { Ranks } from "./ranks.js";
import type { NamedTensors, OptimizerStep, TrainingJob } from "./training-method.js";

export interface UpdateStrategy {
  beginStep(numBatches: number): StepUpdate;
}

export interface StepUpdate {
  /** True if the gradients of the total loss may stay in the compute dtype. */
  readonly keepsGradientDtype: boolean;
  clip(gradients: NamedTensors): {
    readonly norm: Tensor;
    readonly gradients: NamedTensors;
  };
  apply(step: OptimizerStep): void;
}

interface UpdatedTraining {
  readonly job: Pick<TrainingJob, "settings" | "deviceConfig">;
  readonly ranks: Ranks;
  readonly stack: MethodStack;
  readonly optimizer: AdamW;
  readonly lowPrecisionWeights: LowPrecisionWeights | null;
}

/** Chooses the update of a training. Methods and other processes need gradients in float32. */
export function chooseUpdate(training: UpdatedTraining): UpdateStrategy {
  const { job, ranks, stack } = training;
  const needsGradients = ranks.size > 1 || stack.hasHook("gradients") || stack.hasHook("transformUpdates");
  return !needsGradients && hasFusedAdamW(job.deviceConfig.device) ? fusedUpdate(training) : plainUpdate(training);
}

function plainUpdate(training: UpdatedTraining): UpdateStrategy {
  return {
    beginStep() {
      training.lowPrecisionWeights?.refresh();
      return createPlainStep(training);
    },
  };
}

function createPlainStep({ job, stack, optimizer }: UpdatedTraining): StepUpdate {
  const { maxGradNorm } = job.settings;
  return {
    keepsGradientDtype: false,
    clip(gradients) {
      const all = [...gradients.values()];
      return { gradients, norm: maxGradNorm === null ? globalNorm(all) : clipGradNorm_(all, maxGradNorm) };
    },
    apply: (step) => optimizer.update(stack.transformUpdates(step)),
  };
}

/** On a GPU, clipping, AdamW and the refreshed copy are one pass over memory. */
function fusedUpdate(training: UpdatedTraining): UpdateStrategy {
  const { job, stack, optimizer, lowPrecisionWeights } = training;
  const { maxGradNorm } = job.settings;
  // If a method may change the weights after the update, each step refreshes the copy first. This
  // does not depend on the step: a captured step relies on all others.
  const keepsCopyCurrent = !stack.hasHook("afterStep");
  /** True if the low-precision weights are those of the parameters. */
  let isCopyCurrent = false;
  const plain = createPlainStep(training);

  /** The gradients of several batches are summed in float32. */
  const accumulatedStep: StepUpdate = {
    ...plain,
    apply(step) {
      plain.apply(step);
      if (!lowPrecisionWeights || !keepsCopyCurrent) return;
      lowPrecisionWeights.refresh();
      isCopyCurrent = true;
    },
  };

  function createFusedStep(): StepUpdate {
    let unclipped: NamedTensors = new Map();
    let clipFactor: Tensor | null = null;
    return {
      keepsGradientDtype: true,
      clip(gradients) {
        const norm = globalNorm([...gradients.values()]);
        unclipped = gradients;
        clipFactor = maxGradNorm === null ? null : computeClipFactor(norm, maxGradNorm);
        const clip = (gradient: Tensor): Tensor => (clipFactor ? gradient.mul(clipFactor) : gradient);
        return {
          norm,
          // In float32, for a method that reads them after the update.
          get gradients() {
            return noGrad(() => new Map([...gradients].map(([name, each]) => [name, clip(each.to("float32"))])));
          },
        };
      },
      apply() {
        optimizer.updateAndCopy(unclipped, clipFactor, (parameter) =>
          keepsCopyCurrent ? (lowPrecisionWeights?.getCopy(parameter)?.target ?? null) : null,
        );
        isCopyCurrent = keepsCopyCurrent;
      },
    };
  }

  return {
    beginStep(numBatches) {
      if (!isCopyCurrent) lowPrecisionWeights?.refresh();
      return numBatches > 1 ? accumulatedStep : createFusedStep();
    },
  };
}
