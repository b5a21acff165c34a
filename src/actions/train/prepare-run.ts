import { UserError } from "../../base/errors.js";
import { type Callbacks, warn } from "../../base/events.js";
import { Rng } from "../../base/rng.js";
import { createResolvedMethods, findTrainedCertificate } from "../../methods/index.js";
import { loadModel, type Model } from "../../models/index.js";
import { type CertifiedModel, getTieMargin } from "../../proofs/certificates/index.js";
import type { RunFolder } from "../../runs/run-folder.js";
import type { DataRequest, RunConfig } from "../../settings/config.js";
import type { ResolvedRun } from "../../settings/read-config.js";
import { applyRuntime, type RuntimeConfig } from "../../settings/runtime-config.js";
import { type Example, formatSplit, loadTask, type Task, taskNames } from "../../tasks/index.js";
import { countOverlap, sampleExamples } from "../../tasks/sample.js";
import { loadSubstitutions } from "../../text/load-substitutions.js";
import { filterInVocabSubstitutes, matchCaseSensitively, type Substitutions } from "../../text/substitutions.js";
import { type TrainingJob, toDataset, transformExamples } from "../../train/index.js";
import { listTrainingDataWarnings } from "./training-data-warnings.js";

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
 * frees the model's weights.
 */
export async function prepareRun(run: ResolvedRun, callbacks: TaskCallbacks = {}): Promise<PreparedRun> {
  const { config, data } = run;
  const { onEvent } = callbacks;
  for (const note of run.notes) warn(callbacks, note);
  const methods = createResolvedMethods(run.methods);
  const precise = methods.find((method) => method.traits?.requiresFloat32);
  const runtime = applyRuntime(config, { use: "training", requiresFloat32: precise !== undefined });
  if (precise && runtime.precision === "tf32" && config.precision === null)
    warn(callbacks, `${precise.name} runs in tf32 instead of bf16: ${precise.traits?.requiresFloat32}.`);
  const task = await (data ? loadTask({ data, onEvent }) : loadConfiguredTask(config, callbacks));
  // The data is read first: it is quick, and most mistakes are in it.
  const examples = await loadExamples(config, task, callbacks);
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
  if (train.truncatedCount > 0)
    warn(
      callbacks,
      `${train.truncatedCount} of ${train.items.length} training texts were truncated to ${model.maxLength} tokens.`,
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

/**
 * Loads substitutions for a model: all, only those in its vocabulary, or only those of words in
 * lower case. `model` is null for an endpoint.
 */
export async function loadSubstitutionsForModel(
  source: string,
  options: Pick<RunConfig, "inVocabSubstitutes" | "caseSensitiveSubstitutes">,
  model: Model | null,
): Promise<Substitutions> {
  const complete = await loadSubstitutions(source);
  const table = options.caseSensitiveSubstitutes ? matchCaseSensitively(complete) : complete;
  if (!options.inVocabSubstitutes) return table;
  if (model && model.tokenization !== "subword") return filterInVocabSubstitutes(table, model.tokenizer);
  const reason = model
    ? "A model with subword tokenization knows every word."
    : "The vocabulary of an endpoint is unknown.";
  throw new UserError(`--in-vocab-substitutes: ${reason} Leave it out, or use a model with --tokenization word.`);
}

/**
 * Loads the task that a request names; without one, the task of the model's run or the one in the
 * model's config.
 */
export async function loadRequestedTask(
  request: DataRequest,
  model: Pick<Model, "task" | "labels"> | null,
  run: RunFolder | null,
  callbacks: TaskCallbacks,
): Promise<Task> {
  if (request.task !== null || request.data !== null) {
    // A file of the user's is evaluated as a whole, with the labels of the model.
    if (request.task !== null) return loadConfiguredTask(request, callbacks);
    // Columns that the request does not name are those of the run, if the run read a file, too.
    const known = run?.config.task === null ? run.config : null;
    const columns = {
      textColumn: request.textColumn.length > 0 ? request.textColumn : (known?.textColumn ?? []),
      labelColumn: request.labelColumn ?? known?.labelColumn ?? null,
      labelMap: request.labelMap ?? known?.labelMap ?? null,
    };
    const options = { evaluationOnly: true, labels: model?.labels };
    return loadConfiguredTask({ ...request, ...columns }, callbacks, options);
  }
  if (run) return loadConfiguredTask(run.config, callbacks);
  if (model?.task && taskNames.includes(model.task))
    return loadConfiguredTask({ ...request, task: model.task }, callbacks);
  throw new UserError(
    `Expected a task (--task ${taskNames[0]}) or a file ` +
      "(--data reviews.csv --text-column review --label-column stars).",
  );
}

/** What is called while a task is loaded. Its data may have to be downloaded. */
type TaskCallbacks = Pick<Callbacks, "onEvent">;

/** Loads the task that a config or a request names. */
export function loadConfiguredTask(
  request: DataRequest & Partial<Pick<RunConfig, "validationData" | "testData">>,
  { onEvent }: TaskCallbacks,
  options: { readonly evaluationOnly?: boolean; readonly labels?: readonly string[] | undefined } = {},
): Promise<Task> {
  const { task, data, textColumn, labelColumn, labelMap, validationData, testData, skipBadRows } = request;
  return loadTask({
    ...options,
    ...(task !== null && { task }),
    ...(data !== null && { data }),
    ...(textColumn.length > 0 && { textColumn }),
    ...(labelColumn !== null && { labelColumn }),
    ...(labelMap !== null && { labelMap }),
    ...(validationData && { validationData }),
    ...(testData && { testData }),
    skipBadRows,
    onEvent,
  });
}

/** A class-balanced sample of `count` examples; all if there are no more or `count` is null. */
export function limitExamples(
  task: Task,
  examples: readonly Example[],
  count: number | null,
  seed: number,
): readonly Example[] {
  if (count === null || count >= examples.length) return examples;
  return sampleExamples(examples, count, seed, task.labels.length);
}

/** Loads all splits at once, so that a broken file does not show up after hours of training. */
async function loadExamples(config: RunConfig, task: Task, callbacks: TaskCallbacks): Promise<PreparedRun["examples"]> {
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
