import { isCudaOutOfMemory, UserError } from "../base/errors.js";
import { nativeCuda } from "../tensor/native.js";
import type { HostBatch } from "./batch.js";
import { toHostBatch } from "./batch-transfer.js";
import type { StepRunner } from "./step-runner.js";
import type { TrainingContext } from "./training-method.js";

/**
 * Runs steps that may run out of GPU memory. It then splits batches into micro-batches and averages
 * their gradients, or throws if a method needs the complete batch.
 */
export function oomRetryRunner(
  training: TrainingContext,
  createRunner: () => StepRunner,
  freeMemory: () => void = () => nativeCuda().emptyCache(),
): StepRunner {
  let runner = createRunner();
  let splitCount = 1;
  const splitIntoMicroBatches = (host: HostBatch): HostBatch[] => {
    if (splitCount === 1) return [host];
    const size = Math.ceil(host.indices.length / splitCount);
    const starts = Array.from({ length: Math.ceil(host.indices.length / size) }, (_, i) => i * size);
    return starts.map((start, i) =>
      toHostBatch(training.job, host.indices.slice(start, start + size), {
        epoch: host.epoch,
        microBatchIndex: i,
        fullBatchSize: host.fullBatchSize,
      }),
    );
  };
  return {
    runStep(stepIndex, hostBatches) {
      for (;;) {
        try {
          return runner.runStep(stepIndex, hostBatches.flatMap(splitIntoMicroBatches));
        } catch (error) {
          if (error instanceof UserError || !isCudaOutOfMemory(error)) throw error;
          const { batchSize, sequenceLength } = hostBatches[0]!.padded;
          throwIfUnsplittable(training, Math.ceil(batchSize / splitCount), batchSize, sequenceLength);
          runner.dispose();
          freeMemory();
          splitCount *= 2;
          training.warn(
            `CUDA out of memory at batch size ${batchSize}, sequence length ${sequenceLength}. Splitting batches ` +
              `into ${splitCount} micro-batches from now on; gradients are averaged, so the update is equivalent.`,
          );
          runner = createRunner();
        }
      }
    },
    dispose: () => runner.dispose(),
  };
}

function throwIfUnsplittable(
  training: TrainingContext,
  microBatchSize: number,
  batchSize: number,
  sequenceLength: number,
): void {
  const method = training.job.methods.find(({ traits }) => traits?.requiresFullBatch);
  const remedy = "Use a smaller train.batchSize, a smaller maxLength, or a GPU with more memory.";
  if (method)
    throw new UserError(
      `CUDA out of memory at batch size ${batchSize}, sequence length ${sequenceLength}. The batch cannot be split, ` +
        `because ${method.name} needs the complete batch: ${method.traits?.requiresFullBatch}. ${remedy}`,
    );
  if (microBatchSize < 2)
    throw new UserError(
      `CUDA out of memory even at batch size 1, sequence length ${sequenceLength}. ` +
        "Use a smaller maxLength, or a GPU with more memory.",
    );
}
