import { noGrad, scope, stack as stackTensors, type Tensor } from "../tensor/index.js";
import type { Batch } from "./batch.js";
import { averageGradients, sumLosses } from "./standard-fine-tuning.js";
import { StepBatch } from "./step-batch.js";
import type { ActiveTraining } from "./training-context.js";
import type { Gradients, NamedTensors, OptimizerStep } from "./training-method.js";

/** The numbers that a step logs. They stay on the device until they are read. */
export interface StepScalars {
  readonly names: readonly string[];
  readonly values: Tensor; // [names]
}

/** Computes detached gradients and values, so that the graph of the batch is freed. */
function computeBatchGradients(
  training: ActiveTraining,
  batch: Batch,
  batchIndex: number,
  keepsGradientDtype: boolean,
): { gradients: Gradients; logged: NamedTensors } {
  return scope(() => {
    const logged = new Map<string, Tensor>();
    const context = new StepBatch(training, batch, batchIndex, {
      keepsGradientDtype,
      log: (name, value) => void logged.set(name, value.detach()),
    });
    const gradients = training.stack.gradients(context);
    const losses = new Map([...gradients.losses].map(([name, loss]) => [name, loss.detach()]));
    return { gradients: { ...gradients, losses }, logged };
  });
}

/** One optimizer step: gradients, clipping, methods, update. Nothing waits for the device. */
export function runOptimizerStep(training: ActiveTraining, stepIndex: number, batches: readonly Batch[]): StepScalars {
  const { job, ranks, stack, streams, optimizer } = training;
  const update = training.update.beginStep(batches.length);
  const logged = new Map<string, Tensor>();
  const log = (name: string, value: Tensor): void => void logged.set(name, value);
  // Use the setting, not the number of batches: the last step of an epoch can have fewer batches.
  const firstBatchIndex = stepIndex * job.settings.gradientAccumulationSteps;
  const { keepsGradientDtype } = update;
  const gradients = averageGradients(
    batches.map(() => 1 / batches.length),
    (i) => {
      const computed = computeBatchGradients(training, batches[i]!, firstBatchIndex + i, keepsGradientDtype);
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
    update.apply(step);
    stack.afterStep(step);
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
