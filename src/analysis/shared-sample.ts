import { UserError } from "../errors.js";
import type { Model } from "../models/index.js";
import { loadTaskFromConfig } from "../runs/prepare-run.js";
import type { Example, Split, Task } from "../tasks/task.js";
import { type Device, free } from "../tensor/index.js";
import { createFixedBatch, type FixedBatch, loadExampleSample } from "./fixed-batch.js";
import type { AnalyzedRun } from "./load-runs.js";

export interface SharedSampleOptions {
  /** Which part of the task; the one that reports where left out. */
  readonly split?: Split | undefined;
  readonly examples: number;
  /** Decides the sample, and what the analysis draws. */
  readonly seed: number;
  readonly device: Device;
  readonly warn?: ((message: string) => void) | undefined;
}

/** Runs of one task, to be asked about the same examples. */
export interface SharedSample {
  readonly task: Task;
  readonly split: Split;
  readonly examples: readonly Example[];
  readonly device: Device;
}

/** Opens what runs are compared on: a sample of the task that they share. */
export async function loadSharedSample(
  runs: readonly AnalyzedRun[],
  options: SharedSampleOptions,
): Promise<SharedSample> {
  const { device, warn = () => {} } = options;
  const tasks = [...new Set(runs.map(({ results }) => results.task))];
  if (tasks.length !== 1)
    throw new UserError(
      `expected runs of one task, received runs of ${tasks.join(" and ")}; compare them one task at a time`,
    );
  const task = await loadTaskFromConfig(runs[0]!.config, warn);
  const split = options.split ?? "test";
  if (!task.splits.includes(split))
    throw new UserError(`--split ${split}: ${task.name} has no such split; it has ${task.splits.join(", ")}`);
  return { task, split, examples: await loadExampleSample(task, split, options.examples, options.seed), device };
}

/** Loads a model, does something with it and the examples, and frees both. */
export async function withModel<T>(
  { examples, device }: SharedSample,
  load: () => Promise<Model>,
  work: (model: Model, batch: FixedBatch) => T | Promise<T>,
): Promise<T> {
  const model = await load();
  try {
    const batch = createFixedBatch(model, examples, device);
    try {
      return await work(model, batch);
    } finally {
      batch.free();
    }
  } finally {
    free(model.weights);
  }
}
