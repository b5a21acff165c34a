import { join } from "node:path";
import { stringify } from "yaml";
import { getErrorMessage, UserError } from "../errors.js";
import { exists, readJson, writeFileAtomic } from "../files.js";
import { type LoadModelOptions, saveModel } from "../models/index.js";
import { free } from "../tensor/index.js";
import { Interrupted, type TrainingCallbacks, type TrainResult, train } from "../train/index.js";
import { type RunConfig, toMethodSpecs } from "./config.js";
import { checkSameConfig } from "./config-identity.js";
import { compareEnvironments, describeEnvironment, type Environment } from "./environment.js";
import { evaluateExamples } from "./evaluate.js";
import { createTrainingJob, type PreparedRun, prepareRun } from "./prepare-run.js";
import { type EvaluationResult, type Results, readResults, resultsSchema } from "./results.js";
import { checkDiskSpace, lockRunFolder, removeRunFiles, runFiles, writeStatus } from "./run-folder.js";

export interface FineTuneOptions {
  /** The run folder. */
  readonly out: string;
  /** Go on with the run in the folder; one that has finished is only read. */
  readonly resume?: boolean;
  readonly callbacks?: TrainingCallbacks;
  /** Aborted: all is saved and `Interrupted` thrown. */
  readonly signal?: AbortSignal;
  readonly onDownload?: LoadModelOptions["onProgress"];
}

/** Runs a config into a folder: trains, saves the model, reports. */
export async function fineTune(config: RunConfig, options: FineTuneOptions): Promise<Results> {
  const { out, resume = false } = options;
  const lock = lockRunFolder(out, resume);
  try {
    if (resume) await checkSameConfig(out, config);
    const finished = resume ? await readResults(out) : null;
    if (finished) return finished;
    const preparedRun = await prepareRun(
      config,
      (message) => options.callbacks?.onWarning?.(message),
      options.onDownload,
    );
    try {
      return await trainPreparedRun(preparedRun, options, lock.wasEmpty);
    } finally {
      free(preparedRun.model.weights);
    }
  } finally {
    lock.release();
  }
}

async function trainPreparedRun(
  preparedRun: PreparedRun,
  options: FineTuneOptions,
  folderWasEmpty: boolean,
): Promise<Results> {
  const { out, resume = false, callbacks: watch = {}, signal } = options;
  const { config, model, runtimeConfig, examples } = preparedRun;
  checkDiskSpace(out, estimateDiskBytes(preparedRun, resume));
  const table = await preparedRun.substitutions?.();
  const environment = await describeEnvironment(
    model,
    runtimeConfig,
    examples.train,
    examples.selection,
    table?.hash ?? null,
  );
  await recordEnvironment(out, environment, resume, (message) => watch.onWarning?.(message));
  await writeFileAtomic(join(out, runFiles.config), stringify(config));
  let steps = 0;
  const callbacks: TrainingCallbacks = {
    ...watch,
    async onStart(facts) {
      steps = facts.steps;
      await writeStatus(out, { steps, failure: null });
      await watch.onStart?.(facts);
    },
  };
  try {
    const outcome = await train(
      createTrainingJob(preparedRun, { folder: out, resume, callbacks: callbacks, ...(signal ? { signal } : {}) }),
    );
    await saveModel(join(out, runFiles.model), model);
    const report = await evaluateExamples(
      model,
      examples.report,
      preparedRun.task.reportSplit,
      runtimeConfig,
      (done, total) => {
        if (signal?.aborted) throw new Interrupted("stopped before its report was done; all of the training is saved");
        watch.onProgress?.("report", done, total);
      },
    );
    const results = createResults(preparedRun, outcome, report);
    await writeFileAtomic(join(out, runFiles.results), `${JSON.stringify(results, null, 2)}\n`);
    return results;
  } catch (error) {
    // Settings that cannot work are told, not kept; what others laid there stays.
    const neverBegan = steps === 0 && error instanceof UserError;
    if (neverBegan && folderWasEmpty) removeRunFiles(out);
    // A full disk may be the very failure: saying so must not hide it.
    else if (!(error instanceof Interrupted))
      await writeStatus(out, { steps, failure: getErrorMessage(error) }).catch(() => undefined);
    throw error;
  }
}

/** Weights and two moments a checkpoint, and the final model. Beside each that is kept lies its best and, for a moment, one more. */
export function estimateDiskBytes({ model, config }: Pick<PreparedRun, "model" | "config">, resume: boolean): number {
  const weights = [...model.weights.values()].reduce((sum, tensor) => sum + 4 * tensor.numel, 0);
  const checkpoints = resume ? 1 : 2 * config.train.saveTotalLimit + 1;
  return 3 * weights * checkpoints + weights;
}

async function recordEnvironment(
  out: string,
  now: Environment,
  resume: boolean,
  warn: (message: string) => void,
): Promise<void> {
  const path = join(out, runFiles.environment);
  if (resume && (await exists(path)))
    compareEnvironments(out, (await readJson(path, "the run's environment")) as Environment, now, warn);
  await writeFileAtomic(path, `${JSON.stringify(now, null, 2)}\n`);
}

function createResults(
  { config, task, examples }: PreparedRun,
  outcome: TrainResult,
  report: EvaluationResult,
): Results {
  return resultsSchema.parse({
    format: 1,
    model: config.model,
    task: task.name,
    method: toMethodSpecs(config.methods),
    seed: config.seed,
    steps: outcome.steps,
    chosenStep: outcome.bestStep,
    trainExamples: examples.train.length,
    selection: outcome.validation,
    report,
  });
}
