import { UserError } from "../errors.js";
import { createLayers } from "../methods/index.js";
import { type LoadOptions, loadModel, type Model } from "../models/index.js";
import { openTask } from "../tasks/index.js";
import { countOverlap, limitExamples } from "../tasks/sample.js";
import type { Example, Task } from "../tasks/task.js";
import type { Substitutions } from "../text/substitutions.js";
import { type Dataset, type Job, type Layer, toDataset } from "../train/index.js";
import { methodChoices, type RunConfig } from "./config.js";
import { chooseMachine, type Machine } from "./placement.js";
import { openSubstitutions } from "./substitutions.js";

/** Everything a config stands for, opened. */
export interface OpenedRun {
  readonly config: RunConfig;
  readonly machine: Machine;
  readonly task: Task;
  readonly model: Model;
  readonly layers: Layer[];
  readonly examples: {
    readonly train: readonly Example[];
    readonly selection: readonly Example[] | null;
    readonly report: readonly Example[];
  };
  readonly datasets: { readonly train: Dataset; readonly selection: Dataset | null };
  readonly substitutions: (() => Promise<Substitutions>) | undefined;
}

/** Opens what a config names: data, model and methods; nothing is written. The caller frees the model's weights. */
export async function openRunConfig(
  config: RunConfig,
  notice: (message: string) => void,
  onDownload?: LoadOptions["onProgress"],
): Promise<OpenedRun> {
  const layers = createLayers(methodChoices(config.method));
  const fine = layers.find((layer) => layer.needsFloat32);
  const machine = chooseMachine(config, fine !== undefined);
  if (fine && machine.precision === "tf32" && config.precision === null)
    notice(`${fine.name} runs in tf32 where bf16 is usual: ${fine.needsFloat32}`);
  const task = await openConfigTask(config, notice);
  // Data comes before the model: it is quickly read, and most mistakes are in it.
  const examples = await loadExamples(config, task, notice);
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
  const datasets = { train: toDataset(model, examples.train), selection: examples.selection && toDataset(model, examples.selection) };
  if (datasets.train.truncated > 0)
    notice(`${datasets.train.truncated} of ${examples.train.length} training texts were cut to ${model.maxLength} tokens`);
  let table: Promise<Substitutions> | undefined;
  const named = config.substitutions;
  const substitutions = named === null ? undefined : () => (table ??= openSubstitutions(named, config.knownSubstitutes, model));
  return { config, machine, task, model, layers, examples, datasets, substitutions };
}

/** The task that a config names. */
export function openConfigTask(config: RunConfig, notice: (message: string) => void): Promise<Task> {
  return openTask({
    task: config.task ?? undefined,
    data: config.data ?? undefined,
    text: config.text.length > 0 ? config.text : undefined,
    label: config.label ?? undefined,
    skipBadRows: config.skipBadRows,
    onNotice: notice,
  });
}

/** The examples that train, select and report. All are read now, so that a broken file does not show after hours of training. */
async function loadExamples(config: RunConfig, task: Task, notice: (message: string) => void): Promise<OpenedRun["examples"]> {
  const sample = (examples: readonly Example[], limit: number | null, seed: number): readonly Example[] =>
    limit === null || limit >= examples.length ? examples : limitExamples(examples, limit, seed, task.labels.length);
  const train = sample(await task.load("train"), config.limit, config.seed);
  if (train.length === 0) throw new UserError(`${task.name}: its training data is empty`);
  // The same selection sample for every seed: runs that are compared are selected by the same texts.
  const selection = task.splits.includes(task.selectSplit) ? sample(await task.load(task.selectSplit), config.selectionLimit, 0) : null;
  const report = sample(await task.load(task.reportSplit), config.reportLimit, 0);
  const evaluations: [string, readonly Example[]][] = [[task.reportSplit, report]];
  if (selection) evaluations.push([task.selectSplit, selection]);
  for (const [split, examples] of evaluations) {
    if (examples.length === 0)
      throw new UserError(
        `${task.name}: its ${split} split is empty: expected at least 3 rows of a label to cut one, or a file of its own (train, dev and test)`,
      );
    const overlap = countOverlap(train, examples);
    if (overlap > 0) notice(`${overlap} of the ${examples.length} texts of the ${split} split also stand in the training data`);
  }
  return { train, selection, report };
}

/** The training job of an opened run. */
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
    graph: config.graph,
    ...(substitutions ? { substitutions } : {}),
    ...rest,
  };
}
