import { didYouMean } from "../base/did-you-mean.js";
import { UserError } from "../base/errors.js";
import type { HubFile } from "../hub/hub-cache.js";
import type { Example } from "./example.js";
import { splitExamples } from "./split-examples.js";

export interface DatasetSource {
  readonly repository: string;
  readonly revision: string;
  listFiles(): Promise<readonly HubFile[]>;
}

const splitNames = ["train", "validation", "test"] as const;

/** The role of a split: `validation` selects the model, `test` is only for the final evaluation. */
export type Split = (typeof splitNames)[number];

/**
 * A dataset with its labels, its splits, and the text fields that an attack may change.
 *
 *     const { labels, splits }: Task = await loadTask({ task: "sst2" });
 */
export interface Task {
  readonly name: string;
  readonly labels: readonly string[];
  /** Names of the text fields: one, or two for pairs. */
  readonly fields: readonly string[];
  /** Indices of the fields whose words may be substituted (SNLI: only the hypothesis). */
  readonly modifiableFields: readonly number[];
  /** Metrics of the task. The first one selects the best model unless the settings name another. */
  readonly metrics: readonly string[];
  readonly splits: readonly Split[];
  /** The dataset's own name of a split, if it differs from the role. GLUE: `{ test: "dev" }`. */
  readonly sourceNames: Readonly<Partial<Record<Split, string>>>;
  /** The benchmark that the dataset belongs to, for display. */
  readonly benchmark?: string | undefined;
  /** The dataset on the Hugging Face Hub, if the task was read from there. */
  readonly source?: DatasetSource | undefined;
  load(split: Split): Promise<Example[]>;
}

export function parseSplit(text: string): Split {
  const split = splitNames.find((name) => name === text);
  if (split !== undefined) return split;
  throw new UserError(`Unknown split "${text}"${didYouMean(text, splitNames)}. Use train, validation or test.`);
}

/** Formats a split for display, with the name that its dataset uses: `sst2 test (GLUE dev set)`. */
export function formatSplit(task: Pick<Task, "name" | "sourceNames" | "benchmark">, split: Split): string {
  const source = task.sourceNames[split];
  const prefix = task.benchmark === undefined ? "" : `${task.benchmark} `;
  return `${task.name} ${split}${source === undefined ? "" : ` (${prefix}${source} set)`}`;
}

export interface TaskSource extends Pick<Task, "name" | "labels" | "fields" | "benchmark" | "source"> {
  /** Default: all fields. */
  readonly modifiableFields?: readonly number[] | undefined;
  /** Default: accuracy. */
  readonly metrics?: readonly string[] | undefined;
  readonly read: Readonly<Partial<Record<Split, () => Promise<Example[]>>>>;
  /** The dataset's own names of these splits, if they differ. */
  readonly names?: Readonly<Partial<Record<Split, string | undefined>>> | undefined;
  /** The validation split selects the model even if there is no test split. */
  readonly keepsValidation?: boolean | undefined;
  readonly noTrainReason?: string | undefined;
  /** The fraction held out as the test split if the dataset has only one part. Default: 0.1. */
  readonly testFraction?: number;
  /** Examples with the same key stay in one split. Default: by their texts. */
  readonly getKey?: (example: Example) => string;
}

/** The validation split held out from train: 10%, at most 2,000 examples. */
const validationPart = { fraction: 0.1, maxExamples: 2000 };

/**
 * Creates a task from the splits that a dataset is published with. Model selection never sees the
 * test split:
 * - train, validation and test: used as they are;
 * - train and one more: the other one is the test split, and validation is held out from train,
 *   unless `keepsValidation` says that the other one is the validation split;
 * - only train: validation and test are held out from it;
 * - no train: the task is for evaluation only.
 */
export function createTask(source: TaskSource): Task {
  const { name, labels, fields, metrics = ["accuracy"], benchmark, read, names = {} } = source;
  const loaders: Partial<Record<Split, () => Promise<Example[]>>> = {};
  const sourceNames: Partial<Record<Split, string>> = {};
  for (const split of splitNames.filter((candidate) => read[candidate] !== undefined)) {
    const role = split === "validation" && !read.test && !source.keepsValidation ? "test" : split;
    const sourceName = names[split] ?? split;
    loaders[role] = once(read[split]!);
    if (sourceName !== role) sourceNames[role] = sourceName;
  }
  const { train, validation, test } = loaders;
  if (train && !(validation && test)) {
    const heldOut = {
      ...(!test && { test: { fraction: source.testFraction ?? 0.1 } }),
      ...(!validation && { validation: validationPart }),
    };
    const parts = once(async () => splitExamples<Split>(await train(), heldOut, source.getKey));
    loaders.train = async () => (await parts()).rest;
    loaders.validation ??= async () => (await parts()).validation;
    loaders.test ??= async () => (await parts()).test;
  }
  const splits = splitNames.filter((split) => loaders[split] !== undefined);
  return {
    name,
    labels,
    fields,
    modifiableFields: source.modifiableFields ?? fields.map((_, index) => index),
    metrics,
    splits,
    sourceNames,
    benchmark,
    source: source.source,
    async load(split) {
      const loader = loaders[split];
      if (loader !== undefined) return [...(await loader())];
      const reason = source.noTrainReason === undefined ? "" : ` ${source.noTrainReason}`;
      throw new UserError(`${name} has no ${split} split. It has: ${splits.join(", ")}.${reason}`);
    },
  };
}

/** Calls an asynchronous function at most once, so that a file is read once for all its splits. */
export function once<T>(load: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  return () => {
    result ??= load();
    return result;
  };
}
