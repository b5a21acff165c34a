import { UserError } from "../errors.js";
import { mapWeights, type Weights } from "../nn/index.js";
import { free, keep, noGrad, type Rng, scope } from "../tensor/index.js";
import { toHostBatch } from "./host-batch.js";
import { Interrupted, type Job } from "./job.js";
import type { Layer, Named, Run } from "./layer.js";
import { toBatch } from "./runner.js";
import { Shadow } from "./shadow.js";
import { Stack } from "./stack.js";
import { openStep } from "./step.js";
import type { Streams } from "./streams.js";

/** Batches that a trial visits of a pass over all data: one to warm up, two to time. */
const trialBatches = 3;

export type OpenRun = Run & { close(): void };

/** Opens a run: the layers prepare themselves over the pre-trained weights. */
export async function openRun(
  job: Job,
  stack: Stack,
  streams: Streams,
  rng: Rng,
  updates: number,
  restored: Named | null,
): Promise<OpenRun> {
  const { model, placement } = job;
  let frozen: Weights | null = null;
  const parameters = new Map(model.weights);
  const prepared: Layer[] = [];
  const run: OpenRun = {
    model,
    task: job.task,
    settings: job.settings,
    device: placement.device,
    compute: placement.compute,
    shadow: placement.compute === "float32" ? null : new Shadow(model, placement.compute),
    rng,
    layers: stack.layers,
    dataset: job.train,
    updates,
    parameters,
    restored,
    pretrained() {
      // Asked for while layers prepare, when the weights still are the pre-trained ones.
      frozen ??= noGrad(() => scope(() => keep(mapWeights(model.weights, (tensor) => tensor.detach().clone()))));
      return frozen;
    },
    async substitutions() {
      if (!job.substitutions)
        throw new UserError("substitutions: this method needs a substitution set: name a table (word -> words) or wordnet");
      return job.substitutions();
    },
    async eachBatch(visit, label) {
      const { batchSize } = job.settings;
      const positions = Int32Array.from(job.train.items.keys());
      // Without layers, which may not have prepared themselves yet.
      const bare = new Stack([]);
      const context = { run, stack: bare, streams, compute: placement.compute, log: () => {} };
      const end = job.trial ? Math.min(positions.length, trialBatches * batchSize) : positions.length;
      for (let start = 0; start < end; start += batchSize) {
        const host = toHostBatch(job.train, positions.slice(start, start + batchSize), model.tokenizer.special.pad, placement.device);
        scope(() => visit(openStep(context, toBatch({ run, stack: bare }, host), start / batchSize)));
        await new Promise(setImmediate);
        run.working(label, Math.min(start + batchSize, positions.length), positions.length);
      }
    },
    trial: job.trial ?? false,
    working(label, done, total) {
      job.watch?.onWork?.(label, done, total);
      if (job.signal?.aborted) throw new Interrupted("stopped before the first update");
    },
    notice: (message) => job.watch?.onNotice?.(message),
    close() {
      run.shadow?.dispose();
      if (frozen) free(frozen);
      for (const layer of prepared) free([...(layer.state?.().parameters?.values() ?? []), ...(layer.state?.().buffers?.values() ?? [])]);
    },
  };
  try {
    for (const layer of stack.layers) {
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
