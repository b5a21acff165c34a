import { AdamW } from "../nn/index.js";
import { Rng } from "../tensor/index.js";
import { groupsOf } from "./base.js";
import { epochBatches } from "./batches.js";
import { graphRunner } from "./graph-runner.js";
import { halvingRunner } from "./halving-runner.js";
import type { Job } from "./job.js";
import type { Named } from "./layer.js";
import { type OpenRun, openRun } from "./run.js";
import { eagerRunner, type Runner, type RunnerContext } from "./runner.js";
import { Stack } from "./stack.js";
import { openStreams, StateStreams } from "./streams.js";

/** A run that is ready for its first update: layers prepared, optimiser made. */
export interface Training {
  readonly run: OpenRun;
  readonly context: RunnerContext;
  readonly runner: Runner;
  readonly updatesPerEpoch: number;
  /** The batches of each update of an epoch. */
  updatesOf(epoch: number): Int32Array[][];
  close(): void;
}

/** Opens all that updates need; `restored` are the layers' own tensors from a checkpoint. */
export async function openTraining(job: Job, restored: Named | null): Promise<Training> {
  const { model, task, settings, placement } = job;
  const stack = new Stack(job.layers);
  stack.check({ model, task, settings, compute: placement.compute });
  const rng = new Rng(job.seed);
  const updatesOf = (epoch: number): Int32Array[][] => {
    const batches = epochBatches(job.train, task.labels.length, settings.batches, settings.batchSize, rng.fork("epoch", epoch));
    const count = Math.ceil(batches.length / settings.accumulate);
    return Array.from({ length: count }, (_, i) => batches.slice(i * settings.accumulate, (i + 1) * settings.accumulate));
  };
  const updatesPerEpoch = updatesOf(0).length;
  const updates = Math.max(1, Math.round(settings.epochs * updatesPerEpoch));
  const streams = openStreams(rng, placement.device);
  const run = await openRun(job, stack, streams, rng, updates, restored);
  const { beta1, beta2, epsilon } = settings;
  const groups = groupsOf(run.parameters, new Set(model.weights.keys()), settings);
  let optimizer: AdamW;
  try {
    optimizer = new AdamW(run.parameters, groups, { beta1, beta2, epsilon });
  } catch (error) {
    run.close();
    throw error;
  }
  const context: RunnerContext = { run, stack, streams, optimizer, compute: placement.compute };
  const open = (): Runner =>
    streams instanceof StateStreams && (job.graph ?? true) ? graphRunner({ ...context, streams }) : eagerRunner(context);
  const runner = placement.device === "cpu" ? open() : halvingRunner(run, open);
  return {
    run,
    context,
    runner,
    updatesPerEpoch,
    updatesOf,
    close() {
      runner.dispose();
      optimizer.dispose();
      run.close();
    },
  };
}
