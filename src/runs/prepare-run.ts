import { UserError } from "../errors.js";
import { createMethods } from "../methods/index.js";
import { type LoadModelOptions, loadModel, type Model } from "../models/index.js";
import { loadTask } from "../tasks/index.js";
import { countOverlap, sampleExamples } from "../tasks/sample.js";
import type { Example, Task } from "../tasks/task.js";
import type { Substitutions } from "../text/substitutions.js";
import { type Dataset, type TrainingJob, type TrainingMethod, toDataset } from "../train/index.js";
import { type RunConfig, toMethodSpecs } from "./config.js";
import { loadSubstitutionsForModel } from "./load-substitutions.js";
import { configureRuntime, type RuntimeConfig } from "./runtime-config.js";

/** Everything a config stands for, opened. */
export interface PreparedRun {
  readonly config: RunConfig;
  readonly runtimeConfig: RuntimeConfig;
  readonly task: Task;
  readonly model: Model;
  readonly methods: TrainingMethod[];
  readonly examples: {
    readonly train: readonly Example[];
    readonly selection: readonly Example[] | null;
    readonly report: readonly Example[];
  };
  readonly datasets: { readonly train: Dataset; readonly selection: Dataset | null };
  readonly substitutions: (() => Promise<Substitutions>) | undefined;
}

/** Opens what a config names: data, model and methods; nothing is written. The caller frees the model's weights. */
export async function prepareRun(
  config: RunConfig,
  warn: (message: string) => void,
  onDownload?: LoadModelOptions["onProgress"],
): Promise<PreparedRun> {
  const methods = createMethods(toMethodSpecs(config.methods));
  const fine = methods.find((method) => method.requiresFloat32);
  const runtimeConfig = configureRuntime(config, fine !== undefined);
  if (fine && runtimeConfig.precision === "tf32" && config.precision === null)
    warn(`${fine.name} runs in tf32 where bf16 is usual: ${fine.requiresFloat32}`);
  const task = await loadTaskFromConfig(config, warn);
  // Data comes before the model: it is quickly read, and most mistakes are in it.
  const examples = await loadExamples(config, task, warn);
  const model = await loadModel(config.model, {
    labels: task.labels,
    task: task.name,
    head: config.head,
    pooling: config.pooling,
    tokenization: config.tokenization,
    maxLength: config.maxLength,
    device: runtimeConfig.device,
    seed: config.seed,
    ...(onDownload ? { onProgress: onDownload } : {}),
  });
  const datasets = {
    train: toDataset(model, examples.train),
    selection: examples.selection && toDataset(model, examples.selection),
  };
  if (datasets.train.truncatedCount > 0)
    warn(
      `${datasets.train.truncatedCount} of ${examples.train.length} training texts were cut to ${model.maxLength} tokens`,
    );
  let table: Promise<Substitutions> | undefined;
  const named = config.substitutions;
  const substitutions =
    named === null ? undefined : () => (table ??= loadSubstitutionsForModel(named, config.inVocabSubstitutes, model));
  return { config, runtimeConfig: runtimeConfig, task, model, methods: methods, examples, datasets, substitutions };
}

/** The task that a config names. */
export function loadTaskFromConfig(config: RunConfig, warn: (message: string) => void): Promise<Task> {
  return loadTask({
    task: config.task ?? undefined,
    data: config.data ?? undefined,
    text: config.textColumn.length > 0 ? config.textColumn : undefined,
    label: config.labelColumn ?? undefined,
    skipBadRows: config.skipBadRows,
    onWarning: warn,
  });
}

/** The examples that train, select and report. All are read now, so that a broken file does not show after hours of training. */
async function loadExamples(
  config: RunConfig,
  task: Task,
  warn: (message: string) => void,
): Promise<PreparedRun["examples"]> {
  const sample = (examples: readonly Example[], limit: number | null, seed: number): readonly Example[] =>
    limit === null || limit >= examples.length ? examples : sampleExamples(examples, limit, seed, task.labels.length);
  const train = sample(await task.load("train"), config.maxTrainSamples, config.seed);
  if (train.length === 0) throw new UserError(`${task.name}: its training data is empty`);
  // The same selection sample for every seed: runs that are compared are selected by the same texts.
  const selection = task.splits.includes(task.selectSplit)
    ? sample(await task.load(task.selectSplit), config.maxValidationSamples, 0)
    : null;
  const report = sample(await task.load(task.reportSplit), config.maxTestSamples, 0);
  const evaluations: [string, readonly Example[]][] = [[task.reportSplit, report]];
  if (selection) evaluations.push([task.selectSplit, selection]);
  for (const [split, examples] of evaluations) {
    if (examples.length === 0)
      throw new UserError(
        `${task.name}: its ${split} split is empty: expected at least 3 rows of a label to cut one, or a file of its own (train, dev and test)`,
      );
    const overlap = countOverlap(train, examples);
    if (overlap > 0)
      warn(`${overlap} of the ${examples.length} texts of the ${split} split also stand in the training data`);
  }
  return { train, selection, report };
}

/** The training job of an opened run. */
export function createTrainingJob(
  preparedRun: PreparedRun,
  rest: Pick<TrainingJob, "folder" | "resume"> & Partial<TrainingJob>,
): TrainingJob {
  const { config, task, model, methods, datasets, runtimeConfig, substitutions } = preparedRun;
  return {
    model,
    task,
    settings: config.train,
    methods: methods,
    train: datasets.train,
    validation: datasets.selection,
    seed: config.seed,
    deviceConfig: runtimeConfig,
    cudaGraphs: config.cudaGraphs,
    ...(substitutions ? { loadSubstitutions: substitutions } : {}),
    ...rest,
  };
}
