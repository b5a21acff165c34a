import { writeFileAtomic } from "../../base/files.js";
import { Rng } from "../../base/rng.js";
import { createResolvedMethods, loadMethods, resolveMethods } from "../../methods/index.js";
import { resolveModel } from "../../models/checkpoint/resolve-model.js";
import { type Architecture, countForwardFlops, countModelParameters, readTextSettings } from "../../models/index.js";
import type { RunConfig } from "../../settings/config.js";
import type { Example } from "../../tasks/index.js";
import { drawRandomly } from "../../tasks/sample.js";
import { createEpochBatches, type Dataset, toDataset, transformExamples } from "../../train/index.js";
import { loadConfiguredTask, type TaskCallbacks } from "../load/load-task.js";
import { loadExamples, type PreparedRun } from "./prepare-run.js";
import { estimateDiskBytes } from "./train.js";

/** The work of a run, counted without computing anything. */
export interface RunWork {
  readonly examples: { readonly train: number; readonly validation: number; readonly test: number };
  /** Parameters of the model. */
  readonly parameters: number;
  readonly diskBytes: number;
  readonly stepsPerEpoch: number;
  readonly steps: number;
  readonly evaluations: number;
  /** FLOPs of one forward pass: over the mean step, and over every text of a split once. */
  readonly flops: { readonly step: number; readonly train: number; readonly validation: number; readonly test: number };
  /** Tokens of the largest batch, with padding. */
  readonly maxBatchTokens: number;
}

/** The texts of a split, of which all or some are tokenized. */
interface CountedSplit {
  readonly tokenized: Dataset;
  readonly count: number;
}

/** Texts per split that are tokenized to estimate the lengths of all. */
const maxTokenized = 512;

/** Counts the work of a run on these examples. The methods may have replaced those of `train`. */
export function countRunWork(
  { train: settings }: Pick<RunConfig, "train">,
  architecture: Architecture,
  examples: PreparedRun["examples"],
  train: Dataset,
  splits: { readonly validation: CountedSplit | null; readonly test: CountedSplit },
): RunWork {
  const { config, numLabels } = architecture;
  const { gradientAccumulationSteps, epochs, evalSteps, evalEpochs } = settings;
  const countTextFlops = ({ tokenized, count }: CountedSplit): number =>
    (tokenized.lengths.reduce((sum, length) => sum + countForwardFlops(config, 1, length), 0) * count) /
    Math.max(1, tokenized.lengths.length);
  const batches = createEpochBatches(train, numLabels, settings, new Rng("work")).map((batch) => ({
    texts: batch.length,
    length: batch.reduce((longest, index) => Math.max(longest, train.lengths[index]!), 0),
  }));
  const stepsPerEpoch = Math.ceil(batches.length / gradientAccumulationSteps);
  const steps = Math.max(1, Math.round(epochs * stepsPerEpoch));
  // The last step is always evaluated.
  const countEvaluations = (): number =>
    evalEpochs === null
      ? Math.ceil(steps / (evalSteps ?? stepsPerEpoch))
      : evalEpochs.filter((epoch) => epoch * stepsPerEpoch < steps).length + 1;
  const parameters = countModelParameters(architecture);
  const { validation, test } = splits;
  return {
    examples: {
      train: examples.train.length,
      validation: examples.validation?.length ?? 0,
      test: examples.test.length,
    },
    parameters,
    diskBytes: estimateDiskBytes(parameters, settings, false),
    stepsPerEpoch,
    steps,
    evaluations: validation ? countEvaluations() : 0,
    flops: {
      step:
        batches.reduce((sum, { texts, length }) => sum + countForwardFlops(config, texts, length), 0) / stepsPerEpoch,
      train: countTextFlops({ tokenized: train, count: train.items.length }),
      validation: validation ? countTextFlops(validation) : 0,
      test: countTextFlops(test),
    },
    maxBatchTokens: batches.reduce((max, { texts, length }) => Math.max(max, texts * length), 0),
  };
}

/** A random sample of a split, tokenized. */
export function sampleSplit(
  model: Parameters<typeof toDataset>[0],
  examples: readonly Example[],
  transform: (sample: readonly Example[]) => readonly Example[] = (sample) => sample,
): CountedSplit {
  const sample = drawRandomly(examples, maxTokenized, "work");
  const transformed = transform(sample);
  return {
    tokenized: toDataset(model, transformed),
    count: Math.round((examples.length * transformed.length) / Math.max(1, sample.length)),
  };
}

/**
 * Counts the work of runs that have the same data and the same model, which is not loaded. Writes
 * the longest texts of a sample to the file `sample`, for `measureRun`.
 */
export async function countWork(
  configs: readonly RunConfig[],
  samplePath: string,
  callbacks: TaskCallbacks = {},
): Promise<RunWork[]> {
  const first = configs[0]!;
  const task = await loadConfiguredTask(first, callbacks);
  const examples = await loadExamples(first, task, {});
  const { folder } = await resolveModel(first.model, callbacks);
  const { config, metadata, ...text } = await readTextSettings(first.model, folder, first);
  const architecture: Architecture = {
    config,
    head: metadata?.head ?? first.head,
    pooling: metadata?.pooling ?? first.pooling,
    numLabels: task.labels.length,
  };
  const model = { ...text, architecture };
  const sampleSplits = (transform?: (sample: readonly Example[]) => readonly Example[]) => ({
    train: sampleSplit(model, examples.train, transform),
    validation: examples.validation && sampleSplit(model, examples.validation, transform),
  });
  const test = sampleSplit(model, examples.test);
  const plain = sampleSplits();
  const { tokenized } = plain.train;
  const order = [...tokenized.items.keys()].sort((a, b) => tokenized.lengths[b]! - tokenized.lengths[a]!);
  await writeFileAtomic(samplePath, JSON.stringify(order.map((index) => tokenized.items[index]!.example)));
  const works: RunWork[] = [];
  for (const run of configs) {
    const methods = createResolvedMethods(resolveMethods(await loadMethods(run.methods)));
    const { train, validation } = methods.some((method) => method.transformExamples)
      ? sampleSplits((sample) => transformExamples(methods, sample, task, new Rng("work")))
      : plain;
    works.push(countRunWork(run, architecture, examples, extendDataset(train, examples.train), { validation, test }));
  }
  return works;
}

/** A dataset of the complete size: the tokens of the sample are repeated. */
function extendDataset({ tokenized, count }: CountedSplit, examples: readonly Example[]): Dataset {
  const size = tokenized.items.length;
  const items = Array.from({ length: count }, (_, i) => {
    const item = tokenized.items[i % size]!;
    // A rare label may be missing in the sample.
    return count === examples.length ? { ...item, example: examples[i]! } : item;
  });
  return { ...tokenized, items, lengths: Int32Array.from(items, ({ encoding }) => encoding.ids.length) };
}
