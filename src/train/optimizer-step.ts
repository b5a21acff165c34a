import { isCudaOutOfMemory, UserError } from "../errors.js";
import { clipGradNorm_, globalNorm } from "../nn/index.js";
import { noGrad, scope, stack as stackTensors, type Tensor } from "../tensor/index.js";
import { BatchContext, type BatchContextOptions } from "./batch-context.js";
import type { Batch } from "./batch-transfer.js";
import {
  applyFusedUpdate,
  canFuseUpdate,
  clipGradients,
  measureGradients,
  refreshAfterStep,
  refreshBeforeStep,
} from "./fused-update.js";
import type { Ranks } from "./ranks.js";
import { averageGradients, sumLosses } from "./standard-fine-tuning.js";
import type { TrainingContext } from "./training-context.js";
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

interface MicroBatch {
  /** Position of its batch within the optimizer step. */
  readonly batchOffset: number;
  readonly weight: number;
}

/** Weighs micro-batches so that their sum is the mean over the batches of a step. */
function weighMicroBatches(batches: readonly Batch[]): MicroBatch[] {
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

/**
 * Computes gradients and logged values, detached, so that the graph of the micro-batch is freed.
 */
function computeMicroBatchGradients(
  training: TrainingContext,
  batch: Batch,
  batchIndex: number,
  options: Pick<BatchContextOptions, "keepsGradientDtype" | "reducer">,
): { gradients: Gradients; logged: NamedTensors } {
  return scope(() => {
    const logged = new Map<string, Tensor>();
    const context = new BatchContext(training, batch, batchIndex, {
      ...options,
      log: (name, value) => void logged.set(name, context.scaleToGlobalBatch(value.detach())),
    });
    const gradients = training.stack.gradients(context);
    const losses = new Map(
      [...gradients.losses].map(([name, loss]) => [name, context.scaleToGlobalBatch(loss.detach())]),
    );
    return { gradients: { ...gradients, losses }, logged };
  });
}

/** Adds what was not added before: gradients, losses and logged values of all processes. */
function sumOverRanks(ranks: Ranks, gradients: Gradients, logged: Map<string, Tensor>): void {
  const named = [...(gradients.isTotalReduced ? [] : [gradients.total]), ...gradients.auxiliary.values()];
  const scalars = [...gradients.losses.values(), ...logged.values()];
  ranks.sum_([...named.flatMap((tensors) => [...tensors.values()]), ...scalars]);
}

/**
 * One optimizer step: computes the gradients of the batches, clips them, lets the methods transform
 * the updates, and applies them. Nothing here waits for the device.
 */
export function runOptimizerStep(
  training: TrainingContext,
  stepIndex: number,
  batches: readonly Batch[],
  apply: ApplyUpdate,
): StepScalars {
  const { job, stack, streams, optimizer } = training;
  refreshBeforeStep(training);
  const isFused = canFuseUpdate(training, batches.length);
  const logged = new Map<string, Tensor>();
  const log = (name: string, value: Tensor): void => void logged.set(name, value);
  // Use the setting, not the number of batches: the last step of an epoch can have fewer batches.
  const firstBatchIndex = stepIndex * job.settings.gradientAccumulationSteps;
  const microBatches = weighMicroBatches(batches);
  // The gradients of several batches are summed once, after the last of them.
  const reducer = batches.length === 1 ? training.reducer : null;
  const gradients = averageGradients(
    microBatches.map(({ weight }) => weight),
    (i) => {
      const batchIndex = firstBatchIndex + microBatches[i]!.batchOffset;
      const options = { keepsGradientDtype: isFused, reducer };
      const computed = computeMicroBatchGradients(training, batches[i]!, batchIndex, options);
      for (const [name, value] of computed.logged) log(name, value);
      return computed.gradients;
    },
  );
  return noGrad(() => {
    if (job.ranks) sumOverRanks(job.ranks, gradients, logged);
    const all = [...gradients.total.values()];
    const { maxGradNorm } = job.settings;
    const unclipped = isFused ? measureGradients(gradients.total, maxGradNorm) : null;
    const gradientNorm = unclipped?.norm ?? (maxGradNorm === null ? globalNorm(all) : clipGradNorm_(all, maxGradNorm));
    const step: OptimizerStep = {
      training,
      stepIndex,
      get gradients() {
        return unclipped ? clipGradients(unclipped) : gradients.total;
      },
      auxiliaryGradients: gradients.auxiliary,
      gradientNorm,
      optimizer,
      enterRandomStream: (...names) => streams.enter(firstBatchIndex, ["update", ...names]),
      log,
    };
    const updates = unclipped ? null : stack.transformUpdates(step);
    apply(() => {
      if (unclipped) applyFusedUpdate(training, unclipped);
      else optimizer.update(updates!);
      if (!unclipped) refreshAfterStep(training);
      stack.afterStep(step);
    });
    const scalars = new Map<string, Tensor>([
      ["loss", sumLosses(gradients.losses)],
      ...[...gradients.losses].map(([name, value]): [string, Tensor] => [`loss.${name}`, value]),
      ["gradientNorm", gradientNorm],
      ...logged,
    ]);
    return {
      names: [...scalars.keys()],
      values: stackTensors(
        [...scalars.values()].map((value) => value.detach().to("float32").reshape()),
        0,
      ),
    };
  });
}
