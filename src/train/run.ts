import { UserError } from "../errors.js";
import { mapWeights, type Weights } from "../nn/index.js";
import { free, keep, noGrad, type Rng, scope } from "../tensor/index.js";
import { createBatchContext } from "./batch-context.js";
import { toHostBatch } from "./host-batch.js";
import { Interrupted, type TrainingJob } from "./job.js";
import { MethodStack } from "./method-stack.js";
import { LowPrecisionWeights } from "./mixed-precision.js";
import type { RandomStreams } from "./random-streams.js";
import { toBatch } from "./runner.js";
import type { NamedTensors, TrainingContext, TrainingMethod } from "./training-method.js";

/** Batches that a trial visits of a pass over all data: one to warm up, two to time. */
const dryRunBatches = 3;

export type OwnedTrainingContext = TrainingContext & { close(): void };

/** Opens a run: the layers prepare themselves over the pre-trained weights. */
export async function createTrainingContext(
  job: TrainingJob,
  stack: MethodStack,
  streams: RandomStreams,
  rng: Rng,
  updates: number,
  restored: NamedTensors | null,
): Promise<OwnedTrainingContext> {
  const { model, deviceConfig: placement } = job;
  let frozen: Weights | null = null;
  const parameters = new Map(model.weights);
  const prepared: TrainingMethod[] = [];
  const run: OwnedTrainingContext = {
    model,
    task: job.task,
    settings: job.settings,
    device: placement.device,
    computeDtype: placement.computeDtype,
    lowPrecisionWeights:
      placement.computeDtype === "float32" ? null : new LowPrecisionWeights(model, placement.computeDtype),
    rng,
    methods: stack.methods,
    dataset: job.train,
    totalSteps: updates,
    parameters,
    restoredBuffers: restored,
    getPretrainedWeights() {
      // Asked for while layers prepare, when the weights still are the pre-trained ones.
      frozen ??= noGrad(() => scope(() => keep(mapWeights(model.weights, (tensor) => tensor.detach().clone()))));
      return frozen;
    },
    async loadSubstitutions() {
      if (!job.loadSubstitutions)
        throw new UserError(
          "substitutions: this method needs a substitution set: name a table (word -> words) or wordnet",
        );
      return job.loadSubstitutions();
    },
    async forEachBatch(visit, label) {
      const { batchSize } = job.settings;
      const positions = Int32Array.from(job.train.items.keys());
      // Without layers, which may not have prepared themselves yet.
      const bare = new MethodStack([]);
      const context = { run, stack: bare, streams, computeDtype: placement.computeDtype, log: () => {} };
      const end = job.dryRun ? Math.min(positions.length, dryRunBatches * batchSize) : positions.length;
      for (let start = 0; start < end; start += batchSize) {
        const host = toHostBatch(
          job.train,
          positions.slice(start, start + batchSize),
          model.tokenizer.special.padId,
          placement.device,
        );
        scope(() => visit(createBatchContext(context, toBatch({ run, stack: bare }, host), start / batchSize)));
        await new Promise(setImmediate);
        run.reportProgress(label, Math.min(start + batchSize, positions.length), positions.length);
      }
    },
    dryRun: job.dryRun ?? false,
    reportProgress(label, done, total) {
      job.callbacks?.onProgress?.(label, done, total);
      if (job.signal?.aborted) throw new Interrupted("stopped before the first update");
    },
    warn: (message) => job.callbacks?.onWarning?.(message),
    close() {
      run.lowPrecisionWeights?.dispose();
      if (frozen) free(frozen);
      for (const layer of prepared)
        free([...(layer.state?.().parameters?.values() ?? []), ...(layer.state?.().buffers?.values() ?? [])]);
    },
  };
  try {
    for (const layer of stack.methods) {
      await layer.prepare?.(run);
      prepared.push(layer);
      for (const [name, tensor] of layer.state?.().parameters ?? []) parameters.set(name, tensor);
    }
    return run;
  } catch (error) {
    run.close();
    throw error;
  }
}
