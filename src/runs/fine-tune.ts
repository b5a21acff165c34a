import { join } from "node:path";
import { stringify } from "yaml";
import { messageOf, UserError } from "../errors.js";
import { exists, readJson, writeFileAtomic } from "../files.js";
import { type LoadOptions, saveModel } from "../models/index.js";
import { free } from "../tensor/index.js";
import { Interrupted, type Outcome, train, type Watcher } from "../train/index.js";
import { methodChoices, type RunConfig } from "./config.js";
import { compareEnvironments, describeEnvironment, type Environment } from "./environment.js";
import { evaluateExamples } from "./evaluate.js";
import { checkDiskSpace, forgetRun, lockRunFolder, runFiles, writeStatus } from "./folder.js";
import { jobOf, type OpenedRun, openRunConfig } from "./open.js";
import { type Results, readResults, resultsSchema, type SplitReport } from "./results.js";
import { checkSameConfig } from "./same-config.js";

export interface FineTuneOptions {
  /** The run folder. */
  readonly out: string;
  /** Go on with the run in the folder; one that has finished is only read. */
  readonly resume?: boolean;
  readonly watch?: Watcher;
  /** Aborted: all is saved and `Interrupted` thrown. */
  readonly signal?: AbortSignal;
  readonly onDownload?: LoadOptions["onProgress"];
}

/** Runs a config into a folder: trains, saves the model, reports. */
export async function fineTune(config: RunConfig, options: FineTuneOptions): Promise<Results> {
  const { out, resume = false } = options;
  const lock = lockRunFolder(out, resume);
  try {
    if (resume) await checkSameConfig(out, config);
    const finished = resume ? await readResults(out) : null;
    if (finished) return finished;
    const opened = await openRunConfig(config, (message) => options.watch?.onNotice?.(message), options.onDownload);
    try {
      return await runOpened(opened, options, lock.wasEmpty);
    } finally {
      free(opened.model.weights);
    }
  } finally {
    lock.release();
  }
}

async function runOpened(opened: OpenedRun, options: FineTuneOptions, folderWasEmpty: boolean): Promise<Results> {
  const { out, resume = false, watch = {}, signal } = options;
  const { config, model, machine, examples } = opened;
  checkDiskSpace(out, neededBytes(opened, resume));
  const table = await opened.substitutions?.();
  const environment = await describeEnvironment(model, machine, examples.train, examples.selection, table?.hash ?? null);
  await recordEnvironment(out, environment, resume, (message) => watch.onNotice?.(message));
  await writeFileAtomic(join(out, runFiles.config), stringify(config));
  let steps = 0;
  const watching: Watcher = {
    ...watch,
    async onStart(facts) {
      steps = facts.steps;
      await writeStatus(out, { steps, failure: null });
      await watch.onStart?.(facts);
    },
  };
  try {
    const outcome = await train(jobOf(opened, { folder: out, resume, watch: watching, ...(signal ? { signal } : {}) }));
    await saveModel(join(out, runFiles.model), model);
    const report = await evaluateExamples(model, examples.report, opened.task.reportSplit, machine, (done, total) => {
      if (signal?.aborted) throw new Interrupted("stopped before its report was done; all of the training is saved");
      watch.onWork?.("report", done, total);
    });
    const results = resultsOf(opened, outcome, report);
    await writeFileAtomic(join(out, runFiles.results), `${JSON.stringify(results, null, 2)}\n`);
    return results;
  } catch (error) {
    // Settings that cannot work are told, not kept; what others laid there stays.
    const neverBegan = steps === 0 && error instanceof UserError;
    if (neverBegan && folderWasEmpty) forgetRun(out);
    // A full disk may be the very failure: saying so must not hide it.
    else if (!(error instanceof Interrupted)) await writeStatus(out, { steps, failure: messageOf(error) }).catch(() => undefined);
    throw error;
  }
}

/** Weights and two moments a checkpoint, and the final model. Beside each that is kept lies its best and, for a moment, one more. */
export function neededBytes({ model, config }: Pick<OpenedRun, "model" | "config">, resume: boolean): number {
  const weights = [...model.weights.values()].reduce((sum, tensor) => sum + 4 * tensor.elements, 0);
  const checkpoints = resume ? 1 : 2 * config.train.keepCheckpoints + 1;
  return 3 * weights * checkpoints + weights;
}

async function recordEnvironment(out: string, now: Environment, resume: boolean, notice: (message: string) => void): Promise<void> {
  const path = join(out, runFiles.environment);
  if (resume && (await exists(path))) compareEnvironments(out, (await readJson(path, "the run's environment")) as Environment, now, notice);
  await writeFileAtomic(path, `${JSON.stringify(now, null, 2)}\n`);
}

function resultsOf({ config, task, examples }: OpenedRun, outcome: Outcome, report: SplitReport): Results {
  return resultsSchema.parse({
    format: 1,
    model: config.model,
    task: task.name,
    method: methodChoices(config.method),
    seed: config.seed,
    steps: outcome.steps,
    chosenStep: outcome.chosenStep,
    trainExamples: examples.train.length,
    selection: outcome.selection,
    report,
  });
}
