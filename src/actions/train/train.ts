import { resolve } from "node:path";
import { didYouMean } from "../../did-you-mean.js";
import { getErrorMessage, UserError } from "../../errors.js";
import type { MethodSpec } from "../../methods/index.js";
import { saveModel } from "../../models/index.js";
import type { RunConfig, RunConfigInput } from "../../runs/config.js";
import { checkSameConfig } from "../../runs/config-identity.js";
import { compareEnvironments } from "../../runs/environment.js";
import { resolveRunConfig } from "../../runs/read-config.js";
import { listLossWarnings, listResultWarnings } from "../../runs/result-warnings.js";
import { type Results, resultsSchema } from "../../runs/results.js";
import { dataFile } from "../../runs/run-files.js";
import type { RunFolder } from "../../runs/run-folder.js";
import { getDefaultRunFolder } from "../../runs/run-name.js";
import { RunWriter } from "../../runs/run-writer.js";
import type { InMemoryExample } from "../../tasks/index.js";
import { free } from "../../tensor/index.js";
import { Interrupted, type Ranks, singleRank, type TrainingCallbacks, train } from "../../train/index.js";
import { type Callbacks, reportProgress } from "../callbacks.js";
import { evaluateExamples } from "../evaluate/evaluate.js";
import { writeModelCard } from "../model-card/model-card.js";
import { Run } from "../run.js";
import { checkBatchSize, checkSameInputs, checkSameSettings } from "./check-ranks.js";
import { describeEnvironment } from "./describe-environment.js";
import { type PreparedRun, prepareRun } from "./prepare-run.js";
import { startTrackers, type TrackerName } from "./start-trackers.js";
import type { Tracker } from "./tracker.js";

/**
 * Where a run is stored, and what is called while it runs.
 *
 *     await fineTune(config, { out: "runs/rose", resume: true, onProgress: console.log });
 */
export interface FineTuneOptions extends Callbacks {
  /** The run folder. Default: runs/TASK-METHOD-seedN. */
  readonly out?: string | undefined;
  /** Continue the run in the folder. A finished run is only read. */
  readonly resume?: boolean;
  /**
   * Also sends the numbers of the run to trackers: TensorBoard files in the run folder, or the
   * MLflow server in MLFLOW_TRACKING_URI.
   */
  readonly reportTo?: readonly TrackerName[];
  /** The processes that train together, of which this is process 0 (others: `joinFineTune`). */
  readonly ranks?: Ranks;
  /** Every step, evaluation and event, for progress displays and trackers. */
  readonly callbacks?: TrainingCallbacks;
}

/**
 * Fine-tunes a model, evaluates it on the test split and stores everything in a run folder.
 *
 *     const run = await fineTune({ model: "roberta-base", task: "sst2" }, { out: "runs/sst2" });
 *     console.log((await run.results())?.test.accuracy);
 */
export async function fineTune(input: RunConfigInput, options: FineTuneOptions = {}): Promise<Run> {
  checkOptionNames(options);
  const { resume = false, ranks = singleRank } = options;
  const { config, examples, definitions } = await resolveInput(input);
  checkBatchSize(ranks, config);
  const out = options.out ?? getDefaultRunFolder(config);
  const writer = new RunWriter(out, resume);
  try {
    const complete = examples ? { ...config, data: resolve(writer.path("data")) } : config;
    const before = resume ? await writer.read() : null;
    // The recorded length may be that of the model, and the columns may have been inferred. Neither
    // is loaded yet.
    const recordedLength = before?.config.maxLength ?? complete.maxLength;
    if (before)
      checkSameConfig(out, before.config, {
        ...complete,
        maxLength: Math.min(complete.maxLength, recordedLength),
        textColumn: complete.textColumn.length > 0 ? complete.textColumn : before.config.textColumn,
      });
    if (checkSameSettings(ranks, config, Boolean(await before?.results()))) return await Run.open(out);
    const dataHash = examples && (await writer.writeData(examples));
    const prepared = await prepareRun(complete, options, definitions).catch((error: unknown) => {
      if (writer.wasEmpty) writer.removeAll();
      throw error;
    });
    try {
      // A run that a sweep has only planned does not know the length of its model yet.
      if (await before?.environment()) checkSameConfig(out, before!.config, prepared.config);
      await trainPreparedRun(prepared, writer, before, dataHash, options);
    } finally {
      free(prepared.job.model.weights);
    }
    return await Run.open(out);
  } finally {
    writer.release();
  }
}

const optionNames: readonly (keyof FineTuneOptions)[] = [
  ...(["out", "resume", "reportTo", "ranks", "callbacks"] as const),
  ...(["onProgress", "onWarning", "onDownload", "signal"] as const),
];

/** JavaScript has no compiler to reject a misspelled option. */
function checkOptionNames(options: FineTuneOptions): void {
  const unknown = Object.keys(options).find((name) => !optionNames.some((known) => known === name));
  if (unknown !== undefined)
    throw new UserError(
      `fineTune: unknown option ${unknown}${didYouMean(unknown, optionNames)}. ` +
        `The options are ${optionNames.join(", ")}.`,
    );
}

interface ResolvedInput {
  readonly config: RunConfig;
  /** The array of examples, if the data is not a file. */
  readonly examples: readonly InMemoryExample[] | null;
  /** The methods that were passed with their definitions. */
  readonly definitions: readonly MethodSpec[];
}

/** Checks the settings that a program passed, and separates what is not plain data. */
export async function resolveInput({ methods = [], textColumn = [], ...rest }: RunConfigInput): Promise<ResolvedInput> {
  const examples = typeof rest.data === "object" ? rest.data : null;
  if (examples && rest.task)
    throw new UserError("config: task cannot be combined with an array of examples. Leave one of them out.");
  const entries = Array.isArray(methods) ? methods : [methods];
  const definitions = entries.filter(hasDefinition);
  const tree = {
    ...rest,
    ...(examples && { data: dataFile }),
    methods: entries.map((entry) => (hasDefinition(entry) ? { name: entry.name, options: entry.options } : entry)),
    textColumn: [textColumn].flat(),
  };
  return { config: await resolveRunConfig(tree, () => "config", definitions), examples, definitions };
}

function hasDefinition(entry: NonNullable<RunConfigInput["methods"]>[number]): entry is MethodSpec {
  return typeof entry === "object" && entry !== null && "definition" in entry;
}

async function trainPreparedRun(
  prepared: PreparedRun,
  writer: RunWriter,
  before: RunFolder | null,
  dataHash: string | null,
  options: FineTuneOptions,
): Promise<void> {
  const { onProgress, onWarning, signal, reportTo = [], ranks = singleRank, callbacks = {} } = options;
  const { config, runtime, examples, job } = prepared;
  const { model, task } = job;
  const warn = (message: string): void => (callbacks.onWarning ?? onWarning)?.(message);
  writer.checkDiskSpace(estimateDiskBytes(prepared, before !== null));
  const table = await job.loadSubstitutions?.();
  const environment = await describeEnvironment(prepared, table?.hash ?? null, dataHash);
  checkSameInputs(ranks, environment, examples.test);
  const earlier = await before?.environment();
  if (earlier) compareEnvironments(writer.folder, earlier, environment, warn);
  await writer.writeEnvironment(environment);
  await writer.writeConfig(config);
  let steps = 0;
  const trackers: Tracker[] = [];
  let status: "finished" | "failed" | "stopped" = "failed";
  const watched: TrainingCallbacks = {
    ...callbacks,
    onWarning: warn,
    async onStart(facts) {
      trackers.push(...(await startTrackers(reportTo, { config, writer, step: facts.step, onWarning: warn })));
      steps = facts.totalSteps;
      await writer.writeStatus({ steps, failure: null });
      await callbacks.onStart?.(facts);
    },
    ...reportProgress(callbacks, onProgress),
    onEvent(event) {
      for (const tracker of trackers) tracker.writeEvent(event);
      callbacks.onEvent?.(event);
    },
  };
  try {
    const outcome = await train({
      ...job,
      ranks,
      files: {
        events: writer.path("events"),
        timings: writer.path("timings"),
        checkpoints: writer.path("checkpoints"),
      },
      resume: before !== null,
      callbacks: watched,
      ...(signal && { signal }),
    });
    await saveModel(writer.path("model"), model);
    const onTested = (done: number, total: number): void => {
      // The other processes wait for this one.
      if (ranks.size === 1 && signal?.aborted)
        throw new Interrupted("Stopped during the test evaluation. All of the training is saved.");
      watched.onProgress?.("test", Math.min(done * ranks.size, total), total);
    };
    const test = await evaluateExamples(model, task, examples.test, "test", runtime, onTested, ranks);
    const results: Results = {
      format: 3,
      model: config.model,
      task: task.name,
      methods: config.methods.map(({ name, options: given }) => ({ name, options: given })),
      seed: config.seed,
      steps: outcome.steps,
      bestStep: outcome.bestStep,
      trainExamples: examples.train.length,
      validation: outcome.validation && { ...outcome.validation },
      validationDegeneracy: outcome.validationDegeneracy,
      lowerIsBetter: job.methods.flatMap(({ lowerIsBetter }) => lowerIsBetter ?? []),
      test,
    };
    const checked = resultsSchema.parse(results);
    await writeModelCard((await writer.read())!, checked);
    await writer.writeResults(checked);
    await writer.removeUnneeded(config.train);
    status = "finished";
    const events = (await writer.read())?.events();
    const labels = examples.train.map(({ label }) => label);
    for (const warning of [...listLossWarnings((await events) ?? [], labels), ...listResultWarnings(test)])
      warn(warning);
  } catch (error) {
    if (error instanceof Interrupted) status = "stopped";
    // Settings that cannot work leave nothing behind, unless the folder had other content.
    if (steps === 0 && error instanceof UserError && writer.wasEmpty) writer.removeAll();
    // A full disk may be the failure itself: recording it must not hide it.
    else if (!(error instanceof Interrupted))
      await writer.writeStatus({ steps, failure: getErrorMessage(error) }).catch(() => undefined);
    throw error;
  } finally {
    for (const tracker of trackers) await tracker.close(status);
  }
}

/**
 * Disk space of a run: weights and two moments per checkpoint, the best of each kept one and one
 * more in progress.
 */
export function estimateDiskBytes(
  { job, config }: { readonly job: Pick<PreparedRun["job"], "model">; readonly config: Pick<RunConfig, "train"> },
  isResumed: boolean,
): number {
  const weights = [...job.model.weights.values()].reduce((sum, tensor) => sum + 4 * tensor.numel, 0);
  const checkpoints = isResumed ? 1 : 2 * Math.max(1, config.train.saveTotalLimit) + 1;
  return 3 * weights * checkpoints + weights;
}
