import { Rng } from "../../base/rng.js";
import { createResolvedMethods } from "../../methods/index.js";
import { resolveModel } from "../../models/checkpoint/resolve-model.js";
import { type Architecture, countForwardFlops, countModelParameters, readTextSettings } from "../../models/index.js";
import type { RunConfig } from "../../settings/config.js";
import type { ResolvedRun } from "../../settings/read-config.js";
import type { Example } from "../../tasks/index.js";
import { drawRandomly } from "../../tasks/sample.js";
import { createEpochBatches, type Dataset, toDataset, transformExamples } from "../../train/index.js";
import type { TaskCallbacks } from "../load/load-task.js";
import { loadExamples, loadRunTask, type PreparedRun } from "./prepare-run.js";
import { estimateDiskBytes } from "./train.js";

export interface RunWork {
  readonly examples: { readonly train: number; readonly validation: number; readonly test: number };
  readonly parameters: number;
  readonly diskBytes: number;
  readonly stepsPerEpoch: number;
  readonly steps: number;
  readonly evaluations: number;
  /** FLOPs of one forward pass: over the mean step, and over every text of a split once. */
  readonly flops: { readonly step: number; readonly train: number; readonly validation: number; readonly test: number };
}

interface CountedSplit {
  readonly tokenized: Dataset;
  readonly count: number;
}

/** Texts per split that are tokenized to estimate the lengths of all. */
const maxTokenized = 512;

export interface CountedWork {
  readonly works: readonly RunWork[];
  readonly sample: readonly Example[];
}

/** Counts the work of runs that have the same data and the same model, which is not loaded. */
export async function countWork(runs: readonly ResolvedRun[], callbacks: TaskCallbacks = {}): Promise<CountedWork> {
  const { config: first } = runs[0]!;
  const task = await loadRunTask(runs[0]!, callbacks);
  const examples = await loadExamples(first, task, callbacks);
  const { folder } = await resolveModel(first.model, callbacks);
  const { config, metadata, ...text } = await readTextSettings(first.model, folder, first);
  const architecture: Architecture = {
    config,
    head: metadata?.head ?? first.head,
    pooling: metadata?.pooling ?? first.pooling,
    numLabels: task.labels.length,
  };
  const tokenize = (split: readonly Example[], transform?: Transform): CountedSplit =>
    sampleSplit({ ...text, architecture }, split, transform);
  const sampleSplits = (transform?: Transform) => ({
    train: tokenize(examples.train, transform),
    validation: examples.validation && tokenize(examples.validation, transform),
  });
  const test = tokenize(examples.test);
  const plain = sampleSplits();
  const { tokenized } = plain.train;
  const order = [...tokenized.items.keys()].sort((a, b) => tokenized.lengths[b]! - tokenized.lengths[a]!);
  const works = runs.map((run) => {
    const methods = createResolvedMethods(run.methods);
    const splits = methods.some((method) => method.transformExamples)
      ? sampleSplits((sample) => transformExamples(methods, sample, task, new Rng("work")))
      : plain;
    return countRunWork(run.config.train, architecture, examples, { ...splits, test });
  });
  return { works, sample: order.map((index) => tokenized.items[index]!.example) };
}

type Transform = (sample: readonly Example[]) => readonly Example[];

function sampleSplit(
  model: Parameters<typeof toDataset>[0],
  examples: readonly Example[],
  transform: Transform = (sample) => sample,
): CountedSplit {
  const sample = drawRandomly(examples, maxTokenized, "work");
  const transformed = transform(sample);
  return {
    tokenized: toDataset(model, transformed),
    count: Math.round((examples.length * transformed.length) / Math.max(1, sample.length)),
  };
}

function countRunWork(
  settings: RunConfig["train"],
  architecture: Architecture,
  examples: PreparedRun["examples"],
  splits: { readonly train: CountedSplit; readonly validation: CountedSplit | null; readonly test: CountedSplit },
): RunWork {
  const { config, numLabels } = architecture;
  const { gradientAccumulationSteps, epochs, evalSteps, evalEpochs } = settings;
  const countTextFlops = ({ tokenized, count }: CountedSplit): number =>
    (tokenized.lengths.reduce((sum, length) => sum + countForwardFlops(config, 1, length), 0) * count) /
    Math.max(1, tokenized.lengths.length);
  const train = extendDataset(splits.train, examples.train);
  const batches = createEpochBatches(train, numLabels, settings, new Rng("work"));
  const countBatchFlops = (batch: Int32Array): number => {
    const longest = batch.reduce((length, index) => Math.max(length, train.lengths[index]!), 0);
    return countForwardFlops(config, batch.length, longest);
  };
  const stepsPerEpoch = Math.ceil(batches.length / gradientAccumulationSteps);
  const steps = Math.max(1, Math.round(epochs * stepsPerEpoch));
  // The last step is always evaluated.
  const evaluations =
    evalEpochs === null
      ? Math.ceil(steps / (evalSteps ?? stepsPerEpoch))
      : evalEpochs.filter((epoch) => epoch * stepsPerEpoch < steps).length + 1;
  const parameters = countModelParameters(architecture);
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
    evaluations: splits.validation ? evaluations : 0,
    flops: {
      step: batches.reduce((sum, batch) => sum + countBatchFlops(batch), 0) / stepsPerEpoch,
      train: countTextFlops(splits.train),
      validation: splits.validation ? countTextFlops(splits.validation) : 0,
      test: countTextFlops(splits.test),
    },
  };
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
