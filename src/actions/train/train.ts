import { resolve } from "node:path";
import { z } from "zod";
import { getErrorMessage, UserError } from "../../base/errors.js";
import { type Callbacks, reportProgress, type TemperEvent, warn } from "../../base/events.js";
import { validate } from "../../base/validate.js";
import { countModelParameters, saveModel } from "../../models/index.js";
import { compareEnvironments, type Environment, hashExamples } from "../../runs/environment.js";
import { listLossWarnings, listResultWarnings } from "../../runs/result-warnings.js";
import { type Results, resultsSchema } from "../../runs/results.js";
import { getDefaultRunFolder } from "../../runs/run-files.js";
import type { RunFolder } from "../../runs/run-folder.js";
import { RunWriter } from "../../runs/run-writer.js";
import { checkSameConfig, flattenConfig, type RunConfig, type RunConfigInput } from "../../settings/config.js";
import { type ResolvedRun, resolveRun, userModules } from "../../settings/read-config.js";
import type { Example } from "../../tasks/index.js";
import { free } from "../../tensor/index.js";
import {
  countLabels,
  type FindAdversarialTexts,
  Interrupted,
  type Ranks,
  resolveClassWeights,
  train as runTraining,
  singleRank,
} from "../../train/index.js";
import { evaluateExamples } from "../evaluate.js";
import { writeModelCard } from "../model-card.js";
import { Run } from "../run.js";
import { describeEnvironment, findPreparedModel, type PreparedRun, prepareRun } from "./prepare-run.js";

const trainOptionsSchema = z.strictObject({
  /** The run folder. Default: runs/TASK-METHOD-seedN. */
  out: z.string().optional(),
  /** Continue the run in the folder. A finished run is only read. */
  resume: z.boolean().default(false),
});
/**
 * The settings of a run, and where it is stored.
 *
 *     const request: TrainRequest = { model: "roberta-base", task: "sst2", out: "runs/sst2" };
 */
export type TrainRequest = RunConfigInput & z.input<typeof trainOptionsSchema>;

/**
 * Fine-tunes a model, evaluates it on the test split and stores everything in a run folder.
 *
 *     const run = await train({ model: "roberta-base", task: "sst2", out: "runs/sst2" });
 *     console.log((await run.results())?.test.accuracy);
 */
export async function train(request: TrainRequest, callbacks: Callbacks = {}): Promise<Run> {
  const { out, resume, ...settings } = request;
  const options = validate(trainOptionsSchema, { out, resume }, "train");
  return trainResolved(await resolveRun(settings, userModules), options, callbacks);
}

/**
 * Trains a run whose settings were checked. Of several processes, this is process 0; the others call
 * `joinTraining`.
 */
export async function trainResolved(
  run: ResolvedRun,
  options: z.input<typeof trainOptionsSchema>,
  callbacks: Callbacks = {},
  ranks: Ranks = singleRank,
): Promise<Run> {
  const { resume = false } = options;
  const { config, data } = run;
  const out = options.out ?? getDefaultRunFolder(config);
  const writer = new RunWriter(out, resume);
  try {
    const complete = data ? { ...config, data: resolve(writer.path("data")) } : config;
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
    const dataHash = data && (await writer.writeData(data));
    // The examples of a program are now a file, like all others.
    const prepared = await prepareRun({ ...run, config: complete, data: null }, callbacks).catch((error: unknown) => {
      if (writer.wasEmpty) writer.removeAll();
      throw error;
    });
    try {
      // A run that a sweep has only planned does not know the length of its model yet.
      if (await before?.environment()) checkSameConfig(out, before!.config, prepared.config);
      await trainPreparedRun({ prepared, writer, before, dataHash, callbacks, ranks });
    } finally {
      free(prepared.job.model.weights);
    }
    return await Run.open(out);
  } finally {
    writer.release();
  }
}

async function trainPreparedRun(training: {
  readonly prepared: PreparedRun;
  readonly writer: RunWriter;
  readonly before: RunFolder | null;
  readonly dataHash: string | null;
  readonly callbacks: Callbacks;
  readonly ranks: Ranks;
}): Promise<void> {
  const { prepared, writer, before, dataHash, callbacks, ranks } = training;
  const { signal } = callbacks;
  const { config, runtime, examples, job } = prepared;
  const { model, task } = job;
  writer.checkDiskSpace(estimateDiskBytes(countModelParameters(model.architecture), config.train, before !== null));
  const environment = await describeEnvironment(prepared, dataHash);
  checkSameInputs(ranks, environment, examples.test);
  const earlier = await before?.environment();
  if (earlier) compareEnvironments(writer.folder, earlier, environment, (message) => warn(callbacks, message));
  await writer.writeEnvironment(environment);
  await writer.writeConfig(config);
  let steps = 0;
  const onEvent = (event: TemperEvent): void => {
    if (event.type === "start") {
      steps = event.totalSteps;
      writer.writeStatus({ steps, failure: null });
    }
    callbacks.onEvent?.(event);
  };
  try {
    const files = {
      events: writer.path("events"),
      timings: writer.path("timings"),
      checkpoints: writer.path("checkpoints"),
      adapter: writer.path("adapter"),
    };
    const attackTexts = deferTextAttack(prepared, { onEvent, signal });
    const outcome = await runTraining({ ...job, onEvent, signal, attackTexts, files, resume: before !== null }, ranks);
    await saveModel(writer.path("model"), model);
    const onTested = (done: number, total: number): void => {
      if (signal?.aborted) throw new Interrupted("Stopped during the test evaluation. All of the training is saved.");
      reportProgress(callbacks, "test", done, total);
    };
    const certified = findPreparedModel(prepared);
    const test = await evaluateExamples(model, task, examples.test, "test", runtime, {
      onProgress: onTested,
      certified,
    });
    const counts = countLabels(examples.train, task.labels.length);
    const classWeights = resolveClassWeights(config.train, task.labels, counts);
    const events = (await (await writer.read())?.events()) ?? [];
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
      warnings: listLossWarnings(events, { counts, settings: config.train, classWeights }),
      test,
    };
    const checked = resultsSchema.parse(results);
    await writeModelCard((await writer.read())!, checked);
    await writer.writeResults(checked);
    await writer.removeUnneeded(config.train);
    for (const warning of [...checked.warnings, ...listResultWarnings(test)]) warn(callbacks, warning);
  } catch (error) {
    // Settings that cannot work leave nothing behind, unless the folder had other content.
    if (steps === 0 && error instanceof UserError && writer.wasEmpty) writer.removeAll();
    // A full disk may be the failure itself: recording it must not hide it.
    else if (!(error instanceof Interrupted)) writer.tryWriteStatus({ steps, failure: getErrorMessage(error) });
    throw error;
  }
}

export async function joinTraining(run: ResolvedRun, ranks: Ranks, callbacks: Callbacks): Promise<void> {
  if (checkSameSettings(ranks, run.config, false)) return;
  const prepared = await prepareRun(run);
  const { job, examples } = prepared;
  try {
    checkSameInputs(ranks, await describeEnvironment(prepared, null), examples.test);
    const attackTexts = deferTextAttack(prepared, callbacks);
    await runTraining({ ...job, ...callbacks, attackTexts, files: null, resume: false }, ranks);
  } finally {
    free(job.model.weights);
  }
}

export function deferTextAttack(prepared: PreparedRun, callbacks: Callbacks): FindAdversarialTexts {
  return async (request) => {
    const { createTextAttack } = await import("./attack-training-texts.js");
    return createTextAttack(prepared, callbacks)(request);
  };
}

/**
 * Disk space of a run: weights and two moments per checkpoint, the best of each kept one and one
 * more in progress.
 */
export function estimateDiskBytes(
  parameters: number,
  { saveStrategy, saveTotalLimit }: Pick<RunConfig["train"], "saveStrategy" | "saveTotalLimit">,
  isResumed: boolean,
): number {
  const weights = 4 * parameters;
  if (saveStrategy === "no") return weights;
  const checkpoints = isResumed ? 1 : 2 * Math.max(1, saveTotalLimit) + 1;
  return 3 * weights * checkpoints + weights;
}

export function checkBatchSize(size: number, { train: { batchSize } }: Pick<RunConfig, "train">): void {
  if (batchSize % size === 0) return;
  throw new UserError(
    `train.batchSize ${batchSize} is the batch of all processes together, and ${size} processes cannot share it ` +
      `equally. Use a multiple of ${size}, such as ${Math.ceil(batchSize / size) * size}, or fewer processes.`,
  );
}

function checkSameSettings(ranks: Ranks, config: RunConfig, isFinished: boolean): boolean {
  rejectDifferences(ranks.exchange(Object.fromEntries(flattenConfig(config))));
  return ranks.exchange(isFinished)[0]!;
}

function checkSameInputs(ranks: Ranks, environment: Environment, test: readonly Example[]): void {
  if (ranks.size === 1) return;
  const { temper, libtorch, precision, model, tokenizer, data, substitutions } = environment;
  const values = {
    "version of Temper": temper,
    "version of libtorch": libtorch,
    precision,
    model: model.hash,
    tokenizer,
    "training data": data.train,
    "validation data": data.validation ?? "",
    "test data": hashExamples(test),
    substitutions: substitutions ?? "",
  };
  rejectDifferences(ranks.exchange(values));
}

/** All processes throw the same error. */
function rejectDifferences(all: readonly Readonly<Record<string, string>>[]): void {
  const [first = {}, ...others] = all;
  const differences = others.flatMap((values, i) =>
    Object.keys(first)
      .filter((key) => values[key] !== first[key])
      .map((key) => `${key} (rank 0: ${shorten(first[key])}, rank ${i + 1}: ${shorten(values[key])})`),
  );
  if (differences.length === 0) return;
  throw new UserError(
    `The processes differ in ${differences.slice(0, 5).join("; ")}. Start all with the same settings and data.`,
  );
}

function shorten(value = "none"): string {
  return value.length > 40 ? `${value.slice(0, 12)}…` : value;
}
