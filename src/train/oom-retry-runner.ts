import { isCudaOutOfMemory, UserError } from "../errors.js";
import { nativeCuda } from "../tensor/native.js";
import { toHostBatch } from "./host-batch.js";
import type { StepRunner } from "./runner.js";
import type { HostBatch, TrainingContext } from "./training-method.js";

/**
 * Runs updates on a GPU whose memory may not suffice: then the batch is halved and the halves' gradients are averaged by
 * their rows, which is the same update where the loss is a mean over examples. Where a method's loss needs the whole batch it is an error instead.
 */
export function oomRetryRunner(
  run: TrainingContext,
  open: () => StepRunner,
  freeMemory: () => void = () => nativeCuda().emptyCache(),
): StepRunner {
  let runner = open();
  let parts = 1;
  const splitIntoMicroBatches = (host: HostBatch): HostBatch[] => {
    if (parts === 1) return [host];
    const rows = Math.ceil(host.indices.length / parts);
    const starts = Array.from({ length: Math.ceil(host.indices.length / rows) }, (_, i) => i * rows);
    return starts.map((start, part) =>
      toHostBatch(
        run.dataset,
        host.indices.slice(start, start + rows),
        run.model.tokenizer.special.padId,
        run.device,
        part,
      ),
    );
  };
  return {
    runStep(number, hosts) {
      for (;;) {
        try {
          return runner.runStep(number, hosts.flatMap(splitIntoMicroBatches));
        } catch (error) {
          if (error instanceof UserError || !isCudaOutOfMemory(error)) throw error;
          const { batchSize: rows, sequenceLength: length } = (hosts[0] as HostBatch).padded;
          throwIfUnsplittable(run, Math.ceil(rows / parts), rows, length);
          runner.dispose();
          freeMemory();
          parts *= 2;
          run.warn(
            `the GPU's memory does not hold ${rows} texts of ${length} tokens: batches run in ${parts} parts from here on, with the same effect`,
          );
          runner = open();
        }
      }
    },
    dispose: () => runner.dispose(),
  };
}

function throwIfUnsplittable(run: TrainingContext, now: number, rows: number, length: number): void {
  const whole = run.methods.find((layer) => layer.requiresFullBatch);
  const remedy = "use a smaller train.batchSize, a shorter maxLength, or a GPU with more memory";
  if (whole)
    throw new UserError(
      `the GPU's memory does not hold ${rows} texts of ${length} tokens, and ${whole.name} needs them in one batch: ${whole.requiresFullBatch}; ${remedy}`,
    );
  if (now < 2)
    throw new UserError(
      `the GPU's memory does not hold a single text of ${length} tokens with what training needs; ${remedy}`,
    );
}
