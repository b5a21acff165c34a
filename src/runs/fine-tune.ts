import { existsSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { UserError } from "../errors.js";
import { writeFileAtomic } from "../files.js";
import { createLayers } from "../methods/index.js";
import { type LoadOptions, loadModel, type Model, saveModel } from "../models/index.js";
import { openTask } from "../tasks/index.js";
import { countOverlap, limitExamples } from "../tasks/sample.js";
import type { Example, Task } from "../tasks/task.js";
import { free } from "../tensor/index.js";
import { loadSubstitutions, type Substitutions } from "../text/substitutions.js";
import { type Dataset, type Job, type Layer, toDataset, train, type Watcher } from "../train/index.js";
import { methodChoices, type RunConfig } from "./config.js";
import { describeEnvironment } from "./environment.js";
import { evaluateSplit } from "./evaluate.js";
import { lockRunFolder, runFiles } from "./folder.js";
import { chooseMachine, type Machine } from "./placement.js";
import { type Results, resultsSchema } from "./results.js";

/** Everything a config stands for, opened. */
export interface OpenedRun {
  readonly config: RunConfig;
  readonly machine: Machine;
  readonly task: Task;
  readonly model: Model;
  readonly layers: Layer[];
  readonly examples: { readonly train: readonly Example[]; readonly selection: readonly Example[] | null };
  readonly datasets: { readonly train: Dataset; readonly selection: Dataset | null };
  readonly substitutions: (() => Promise<Substitutions>) | undefined;
}

/** Opens what a config names: data, model and methods; nothing is written. */
export async function openRunConfig(
  config: RunConfig,
  notice: (message: string) => void,
  onDownload?: LoadOptions["onProgress"],
): Promise<OpenedRun> {
  const layers = createLayers(methodChoices(config.method));
  const machine = chooseMachine(config);
  const task = await openTask({
    task: config.task ?? undefined,
    data: config.data ?? undefined,
    text: config.text.length > 0 ? config.text : undefined,
    label: config.label ?? undefined,
    skipBadRows: config.skipBadRows,
    onNotice: notice,
  });
  const model = await loadModel(config.model, {
    labels: task.labels,
    task: task.name,
    head: config.head,
    feature: config.feature,
    encoding: config.encoding,
    maxLength: config.maxLength,
    device: machine.device,
    seed: config.seed,
    ...(onDownload ? { onProgress: onDownload } : {}),
  });
  const classes = task.labels.length;
  const sample = (examples: readonly Example[], limit: number | null, seed: number): readonly Example[] =>
    limit === null || limit >= examples.length ? examples : limitExamples(examples, limit, seed, classes);
  const trainExamples = sample(await task.load("train"), config.limit, config.seed);
  if (trainExamples.length === 0) throw new UserError(`${task.name}: its training data is empty`);
  // The same selection sample for every seed: runs that are compared are selected by the same texts.
  const selection = task.splits.includes(task.selectSplit) ? sample(await task.load(task.selectSplit), config.selectionLimit, 0) : null;
  const overlap = selection ? countOverlap(trainExamples, selection) : 0;
  if (overlap > 0) notice(`${overlap} of the ${selection?.length} texts of the ${task.selectSplit} split also stand in the training data`);
  const datasets = { train: toDataset(model, trainExamples), selection: selection && toDataset(model, selection) };
  if (datasets.train.truncated > 0)
    notice(`${datasets.train.truncated} of ${trainExamples.length} training texts were cut to ${model.maxLength} tokens`);
  let table: Promise<Substitutions> | undefined;
  const named = config.substitutions;
  const substitutions = named === null ? undefined : () => (table ??= loadSubstitutions(named));
  return { config, machine, task, model, layers, examples: { train: trainExamples, selection }, datasets, substitutions };
}

export interface FineTuneOptions {
  readonly out: string;
  readonly resume?: boolean;
  readonly watch?: Watcher;
  readonly signal?: AbortSignal;
  readonly onDownload?: LoadOptions["onProgress"];
}

/** Runs a config into a folder: trains, saves the model, reports. Resumed where it stopped; a finished run is only read. */
export async function fineTune(config: RunConfig, options: FineTuneOptions): Promise<Results> {
  const { out, resume = false } = options;
  const watch = options.watch ?? {};
  const opened = await openRunConfig(config, (message) => watch.onNotice?.(message), options.onDownload);
  const { model, task, machine } = opened;
  const bytes = [...model.weights.values()].reduce((sum, tensor) => sum + 4 * tensor.elements, 0);
  // Weights and two moments a checkpoint, of which two lie side by side for a moment, and the final model.
  const lock = lockRunFolder(out, resume, 3 * bytes * (config.train.keepCheckpoints + 2) + bytes);
  try {
    await checkSameConfig(out, config, resume);
    const environment = await describeEnvironment(model, machine, opened.examples.train, opened.examples.selection);
    await writeFileAtomic(join(out, runFiles.config), stringify(config));
    await writeFileAtomic(join(out, runFiles.environment), `${JSON.stringify(environment, null, 2)}\n`);
    const outcome = await train(jobOf(opened, { folder: out, resume, watch, ...(options.signal ? { signal: options.signal } : {}) }));
    await saveModel(join(out, runFiles.model), model);
    const report = await evaluateSplit(model, task, task.reportSplit, machine);
    const results: Results = {
      format: 1,
      model: config.model,
      task: task.name,
      method: methodChoices(config.method).map(({ name, options: given }) => ({ name, options: { ...given } })),
      seed: config.seed,
      steps: outcome.steps,
      chosenStep: outcome.chosenStep,
      trainExamples: opened.examples.train.length,
      selection: outcome.selection,
      report,
    };
    await writeFileAtomic(join(out, runFiles.results), `${JSON.stringify(resultsSchema.parse(results), null, 2)}\n`);
    return results;
  } finally {
    lock.release();
    free(model.weights);
  }
}

export function jobOf(opened: OpenedRun, rest: Pick<Job, "folder" | "resume"> & Partial<Job>): Job {
  const { config, task, model, layers, datasets, machine, substitutions } = opened;
  return {
    model,
    task,
    settings: config.train,
    layers,
    train: datasets.train,
    selection: datasets.selection,
    seed: config.seed,
    placement: machine,
    ...(substitutions ? { substitutions } : {}),
    ...rest,
  };
}

/** A resumed run must be the same run: another learning rate in the middle is another experiment. */
async function checkSameConfig(out: string, config: RunConfig, resume: boolean): Promise<void> {
  const path = join(out, runFiles.config);
  if (!resume || !existsSync(path)) return;
  const { readYaml } = await import("./read-config.js");
  const before = (await readYaml(path)).value as Record<string, unknown>;
  const now = JSON.parse(JSON.stringify(config)) as Record<string, unknown>;
  const flat = (tree: Record<string, unknown>): Map<string, string> =>
    new Map(
      Object.entries(tree).flatMap(([key, value]): [string, string][] =>
        key === "train"
          ? Object.entries(value as object).map(([inner, item]) => [`train.${inner}`, JSON.stringify(item)])
          : [[key, JSON.stringify(value)]],
      ),
    );
  const old = flat(before);
  // What does not change a run's course may differ.
  const free = new Set(["device", "threads", "train.keepCheckpoints", "train.checkpointEvery", "train.logEvery"]);
  const changed = [...flat(now)].filter(([key, value]) => !free.has(key) && old.get(key) !== value);
  if (changed.length > 0)
    throw new UserError(
      `${out}: --resume with another config: ${changed.map(([key, value]) => `${key} was ${old.get(key)}, is ${value}`).join("; ")}. Use the same settings, or another --out.`,
    );
}
