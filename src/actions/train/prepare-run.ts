import { UserError } from "../../base/errors.js";
import { warn } from "../../base/events.js";
import { formatCount } from "../../base/format.js";
import { Rng } from "../../base/rng.js";
import { createResolvedMethods, findTrainedCertificate } from "../../methods/index.js";
import { hashModelFolder, loadModel } from "../../models/index.js";
import { type CertifiedModel, getTieMargin } from "../../proofs/certificates/index.js";
import { type Environment, hashExamples, readGitCommit, readPackageVersion } from "../../runs/environment.js";
import type { RunConfig } from "../../settings/config.js";
import type { ResolvedRun } from "../../settings/read-config.js";
import { applyRuntime, type RuntimeConfig } from "../../settings/runtime-config.js";
import { computeDedupKey, type Example, formatSplit, loadTask, type Task } from "../../tasks/index.js";
import { countOverlap } from "../../tasks/sample.js";
import { getGpuIndex } from "../../tensor/index.js";
import { native, packageRoot } from "../../tensor/native.js";
import type { Substitutions } from "../../text/substitutions.js";
import { type TrainingJob, type TrainSettings, toDataset, transformExamples } from "../../train/index.js";
import { loadSubstitutionsForModel } from "../load/load-resources.js";
import { limitExamples, loadConfiguredTask, type TaskCallbacks } from "../load/load-task.js";

/** A config made concrete: the training job without its files, and what else a run needs. */
export interface PreparedRun {
  readonly config: RunConfig;
  readonly runtime: RuntimeConfig;
  readonly examples: {
    readonly train: readonly Example[];
    readonly validation: readonly Example[] | null;
    readonly test: readonly Example[];
  };
  readonly job: Omit<TrainingJob, "files" | "resume">;
}

/**
 * Loads the data and the model of a run and creates its methods. Nothing is written. The caller
 * frees the model's weights. `given` replaces the examples of the run.
 */
export async function prepareRun(
  run: ResolvedRun,
  callbacks: TaskCallbacks = {},
  given: PreparedRun["examples"] | null = null,
): Promise<PreparedRun> {
  const { config } = run;
  const { onEvent } = callbacks;
  for (const note of run.notes) warn(callbacks, note);
  const methods = createResolvedMethods(run.methods);
  const precise = methods.find((method) => method.traits?.requiresFloat32);
  const runtime = applyRuntime(config, { use: "training", requiresFloat32: precise !== undefined });
  if (precise && runtime.precision === "tf32" && config.precision === null)
    warn(callbacks, `${precise.name} runs in tf32 instead of bf16: ${precise.traits?.requiresFloat32}.`);
  const task = await loadRunTask(run, callbacks);
  // The data is read first: it is quick, and most mistakes are in it.
  const examples = given ?? (await loadExamples(config, task, callbacks));
  const { head, headInit, headFromModel, pooling, tokenization, normalize, maxLength, seed, substitutions } = config;
  const { device } = runtime;
  // A word edit can change several words of a canonical form, which joins spaced letters.
  const certificate = findTrainedCertificate(config.methods);
  if (normalize === "canonical" && certificate)
    throw new UserError(
      `normalize: canonical cannot be combined with a method for ${certificate.definition.name} certificates, because one word edit ` +
        "can change several words of a canonical form. Leave one of them out.",
    );
  const architecture = { head, headInit, headFromModel, pooling, tokenization, normalize, maxLength };
  const options = { labels: task.labels, task: task.name, ...architecture, device, seed };
  const model = await loadModel(config.model, { ...options, onEvent });
  if (model.maxLength < maxLength)
    warn(callbacks, `The model reads at most ${model.maxLength} tokens. maxLength ${maxLength} is reduced to that.`);
  const transform = (split: "train" | "validation", list: readonly Example[]): readonly Example[] =>
    transformExamples(methods, list, task, new Rng(seed).fork(split));
  const train = toDataset(model, transform("train", examples.train));
  if (train.truncatedCount > 0 && !given)
    warn(
      callbacks,
      `${formatCount(train.truncatedCount)} of ${formatCount(train.items.length)} training texts were truncated to ` +
        `${model.maxLength} tokens.`,
    );
  let table: Promise<Substitutions> | undefined;
  return {
    // The config records the length and the columns that are used.
    config: {
      ...config,
      maxLength: model.maxLength,
      ...(config.task === null && { textColumn: [...task.fields] }),
    },
    runtime,
    examples,
    job: {
      model,
      task,
      settings: config.train,
      methods,
      train,
      validation: examples.validation && toDataset(model, transform("validation", examples.validation)),
      seed,
      deviceConfig: runtime,
      cudaGraphs: config.cudaGraphs,
      ...(substitutions !== null && {
        loadSubstitutions: () => (table ??= loadSubstitutionsForModel(substitutions, config, model)),
      }),
    },
  };
}

export function loadRunTask({ config, data }: ResolvedRun, callbacks: TaskCallbacks): Promise<Task> {
  return data ? loadTask({ data, onEvent: callbacks.onEvent }) : loadConfiguredTask(config, callbacks);
}

/** The certified model around the trained one; null if it classifies complete texts. */
export function findPreparedModel({ config, job, runtime }: PreparedRun): CertifiedModel | null {
  const { model, task } = job;
  const certificate = findTrainedCertificate(config.methods);
  const facts = {
    numLabels: model.labels.length,
    minMargin: getTieMargin(runtime.precision),
    editableFields: task.modifiableFields,
  };
  return certificate?.createModel?.(facts) ?? null;
}

/** Loads all splits at once, so that a broken file does not show up after hours of training. */
export async function loadExamples(
  config: RunConfig,
  task: Task,
  callbacks: TaskCallbacks,
): Promise<PreparedRun["examples"]> {
  const train = limitExamples(task, await task.load("train"), config.maxTrainSamples, config.seed);
  if (train.length === 0) throw new UserError(`${task.name}: the training data is empty.`);
  for (const message of listTrainingDataWarnings(task, train, config.train)) warn(callbacks, message);
  // Every seed validates on the same sample, so that the runs of a comparison are selected by the
  // same texts.
  const validation = task.splits.includes("validation")
    ? limitExamples(task, await task.load("validation"), config.maxValidationSamples, 0)
    : null;
  const test = limitExamples(task, await task.load("test"), config.maxTestSamples, 0);
  for (const [split, examples] of Object.entries({ test, validation })) {
    if (!examples) continue;
    const name = formatSplit(task, split as "test" | "validation");
    if (examples.length === 0)
      throw new UserError(
        `${name} is empty. Provide at least 3 rows per label to hold one out, or separate train, dev and test files.`,
      );
    const overlap = countOverlap(train, examples);
    if (overlap > 0)
      warn(callbacks, `${overlap} of the ${examples.length} texts of ${name} are in the training data, too.`);
  }
  return { train, validation, test };
}

export async function describeEnvironment(
  { job, runtime, examples }: PreparedRun,
  dataFile: string | null,
): Promise<Environment> {
  const { model, task } = job;
  const { train, validation } = examples;
  const table = await job.loadSubstitutions?.();
  return {
    temper: readPackageVersion(),
    commit: readGitCommit(packageRoot),
    node: process.version,
    libtorch: native().versions().libtorch,
    platform: `${process.platform} ${process.arch}`,
    device:
      runtime.device === "cpu" ? "cpu" : (native().devices()[getGpuIndex(runtime.device)]?.name ?? runtime.device),
    precision: runtime.precision,
    threads: runtime.threads,
    model: { reference: model.reference, hash: await hashModelFolder(model.folder) },
    tokenizer: model.tokenizer.hash,
    data: {
      train: hashExamples(train),
      validation: validation && hashExamples(validation),
      file: dataFile,
      source: task.source ? { repository: task.source.repository, revision: task.source.revision } : null,
    },
    substitutions: table?.hash ?? null,
  };
}

/** With fewer examples per label, results vary more between seeds than between methods. */
const fewPerLabel = 20;

/** A label with less than this fraction of an equal share is easily ignored. */
const imbalancedShare = 0.2;

export function listTrainingDataWarnings(
  task: Pick<Task, "name" | "labels">,
  train: readonly Example[],
  { classWeights, batchSampler }: Pick<TrainSettings, "classWeights" | "batchSampler">,
): string[] {
  const counts = task.labels.map((_, label) => train.filter((example) => example.label === label).length);
  const rare = task.labels.filter((_, label) => counts[label]! === 1);
  const labelsByText = new Map<string, Set<number>>();
  for (const { texts, label } of train) {
    const key = computeDedupKey(texts);
    labelsByText.set(key, (labelsByText.get(key) ?? new Set()).add(label));
  }
  const conflicts = [...labelsByText.values()].filter((labels) => labels.size > 1).length;
  const isImbalanced =
    classWeights === null &&
    batchSampler === "shuffled" &&
    counts.some((count) => count > 1 && count < (imbalancedShare * train.length) / counts.length);
  const listed = task.labels.map((label, i) => `${formatCount(counts[i]!)} of ${label}`);
  const isTiny = train.length < fewPerLabel * task.labels.length;
  return [
    rare.length > 0 &&
      `${task.name}: only one training example has the label ${rare.join(", and only one ")}. ` +
        "Add more examples, or remove the label.",
    isImbalanced &&
      `${task.name}: the training examples are imbalanced (${listed.join(", ")}). A model that ignores the rare labels ` +
        "has a high accuracy. Set train.classWeights to balanced, and look at balanced accuracy and recall.",
    conflicts > 0 &&
      `${task.name}: ${formatCount(conflicts)} ${conflicts === 1 ? "text occurs" : "texts occur"} more than once in ` +
        "the training data with different labels. Correct the labels.",
    isTiny &&
      `${task.name}: ${formatCount(train.length)} training examples are few for ${task.labels.length} labels. ` +
        "Expect results to vary between seeds.",
  ].filter((warning) => warning !== false);
}
