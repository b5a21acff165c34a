import { isCudaOutOfMemory, UserError } from "../base/errors.js";
import { noGrad, scope, stack as stackTensors, type Tensor } from "../tensor/index.js";
import type { Batch } from "./batch.js";
import { averageGradients, sumLosses } from "./standard-fine-tuning.js";
import { type BatchContextOptions, StepBatch } from "./step-batch.js";
import type { ActiveTraining } from "./training-context.js";
import type { Gradients, NamedTensors, OptimizerStep } from "./training-method.js";

/** The numbers that a step logs. They stay on the device until they are read. */
export interface StepScalars {
  readonly names: readonly string[];
  readonly values: Tensor; // [names]
}

/** Runs the part of a step that cannot be repeated: it changes the weights. */
export type ApplyUpdate = (change: () => void) => void;

/** Applies a change at once. If memory runs out, some weights have already changed. */
export const applyImmediately: ApplyUpdate = (change) => {
  try {
    change();
  } catch (error) {
    if (!isCudaOutOfMemory(error)) throw error;
    throw new UserError(
      "CUDA ran out of memory while the weights were being updated, so this step is lost. Earlier checkpoints are " +
        "still valid. Continue with --resume on a GPU with more memory, or start a new run with a smaller " +
        "train.batchSize or maxLength.",
      { cause: error },
    );
  }
};

/** Weighs micro-batches so that their sum is the mean over the batches of a step. */
function weighMicroBatches(batches: readonly Batch[]): {
  /** Position of its batch within the optimizer step. */
  readonly batchOffset: number;
  readonly weight: number;
}[] {
  const sizes: number[] = [];
  const offsets = batches.map((batch) => {
    if (batch.microBatchIndex === 0) sizes.push(0);
    sizes[sizes.length - 1]! += batch.batchSize;
    return sizes.length - 1;
  });
  return batches.map((batch, i) => ({
    batchOffset: offsets[i]!,
    weight: batch.batchSize / sizes[offsets[i]!]! / sizes.length,
  }));
}

/** Computes detached gradients and values, so that the graph of the micro-batch is freed. */
function computeMicroBatchGradients(
  training: ActiveTraining,
  batch: Batch,
  batchIndex: number,
  options: Pick<BatchContextOptions, "keepsGradientDtype">,
): { gradients: Gradients; logged: NamedTensors } {
  return scope(() => {
    const logged = new Map<string, Tensor>();
    const context = new StepBatch(training, batch, batchIndex, {
      ...options,
      log: (name, value) => void logged.set(name, value.detach()),
    });
    const gradients = training.stack.gradients(context);
    const losses = new Map([...gradients.losses].map(([name, loss]) => [name, loss.detach()]));
    return { gradients: { ...gradients, losses }, logged };
  });
}

/** One optimizer step: gradients, clipping, methods, update. Nothing waits for the device. */
export function runOptimizerStep(
  training: ActiveTraining,
  stepIndex: number,
  batches: readonly Batch[],
  apply: ApplyUpdate,
): StepScalars {
  const { job, ranks, stack, streams, optimizer } = training;
  const update = training.update.beginStep(batches.length);
  const logged = new Map<string, Tensor>();
  const log = (name: string, value: Tensor): void => void logged.set(name, value);
  // Use the setting, not the number of batches: the last step of an epoch can have fewer batches.
  const firstBatchIndex = stepIndex * job.settings.gradientAccumulationSteps;
  const microBatches = weighMicroBatches(batches);
  const { keepsGradientDtype } = update;
  const gradients = averageGradients(
    microBatches.map(({ weight }) => weight),
    (i) => {
      const batchIndex = firstBatchIndex + microBatches[i]!.batchOffset;
      const computed = computeMicroBatchGradients(training, batches[i]!, batchIndex, { keepsGradientDtype });
      for (const [name, value] of computed.logged) log(name, value);
      return computed.gradients;
    },
  );
  return noGrad(() => {
    ranks.average_([gradients.total, ...gradients.auxiliary.values()].flatMap((named) => [...named.values()]));
    const clipped = update.clip(gradients.total);
    const step: OptimizerStep = {
      training,
      stepIndex,
      get gradients() {
        return clipped.gradients;
      },
      auxiliaryGradients: gradients.auxiliary,
      gradientNorm: clipped.norm,
      optimizer,
      enterRandomStream: (...names) => streams.enter(firstBatchIndex, ["update", ...names]),
      log,
    };
    const changeParameters = update.prepare(step);
    apply(() => {
      changeParameters();
      stack.afterStep(step);
    });
    const scalars = new Map<string, Tensor>([
      ["loss", sumLosses(gradients.losses)],
      ...[...gradients.losses].map(([name, value]): [string, Tensor] => [`loss.${name}`, value]),
      ["gradientNorm", clipped.norm],
      ...logged,
    ]);
    const values = stackTensors(
      [...scalars.values()].map((value) => value.detach().to("float32").reshape()),
      0,
    );
    ranks.average_([values]);
    return { names: [...scalars.keys()], values };
  });
}
