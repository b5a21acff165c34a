import { didYouMean } from "../base/did-you-mean.js";
import { UserError } from "../base/errors.js";
import { toFlag } from "../base/shell.js";
import { advglueParts, loadAdvglueTask } from "./advglue.js";
import { loadAgNewsTask } from "./ag-news.js";
import { type CustomTaskOptions, type InMemoryExample, loadCustomTask, loadInMemoryTask } from "./custom-task.js";
import { type GlueName, glueDatasets, glueNames, loadGlueTask } from "./glue.js";
import type { HubReadOptions } from "./hub-repository.js";
import { loadImdbTask } from "./imdb.js";
import { loadMrTask } from "./mr.js";
import { loadMsgsTask, msgsProbes } from "./msgs.js";
import { loadSnliTask, snliModifiableFields } from "./snli.js";
import { loadSpamTask } from "./spam.js";
import type { DatasetSource, Task } from "./task.js";

export { type InMemoryExample, writeExamplesFile } from "./custom-task.js";
export { formatSplit, parseSplit, type Split, type Task } from "./task.js";

/** The dataset to load, and how to read it. */
export interface LoadTaskOptions extends CustomTaskOptions {
  /**
   * A name from `taskNames` or hf:OWNER/NAME[/CONFIG]. After the name, `@REVISION` pins the
   * version on the hub. Omit the task for custom data.
   */
  readonly task?: string | undefined;
  /** A folder, a file, or an array of examples. */
  readonly data?: string | readonly InMemoryExample[] | undefined;
}

/** The name of a built-in task. */
type TaskName =
  | GlueName
  | `advglue:${GlueName}`
  | "snli"
  | "imdb"
  | "mr"
  | "ag-news"
  | "spam"
  | `msgs:${(typeof msgsProbes)[number]}`;

/**
 * The task of a request. After the name, `@REVISION` pins the version on the hub.
 *
 *     const tasks: TaskReference[] = ["sst2", "imdb@v1.0", "hf:stanfordnlp/imdb"];
 */
export type TaskReference = TaskName | `${TaskName}@${string}` | `hf:${string}`;

type TaskLoader = (data: string | undefined, options: HubReadOptions) => Promise<Task>;

const loaders: ReadonlyMap<string, TaskLoader> = new Map<TaskName, TaskLoader>([
  ...glueNames.map((name): [TaskName, TaskLoader] => [name, (...rest) => loadGlueTask(name, ...rest)]),
  ...advglueParts.map((part): [TaskName, TaskLoader] => [
    `advglue:${part}`,
    (...rest) => loadAdvglueTask(part, ...rest),
  ]),
  ["snli", loadSnliTask],
  ["imdb", loadImdbTask],
  ["mr", loadMrTask],
  ["ag-news", loadAgNewsTask],
  ["spam", loadSpamTask],
  ...msgsProbes.map((probe): [TaskName, TaskLoader] => [`msgs:${probe}`, (...rest) => loadMsgsTask(probe, ...rest)]),
]);

/** The names of the built-in tasks. */
export const taskNames: readonly string[] = [...loaders.keys()];

/** Shows in error messages how to pass custom data. */
const customDataExample = "--data reviews.csv --text-column review --label-column stars";

/**
 * Loads a task: a built-in one by name, a Hugging Face dataset (hf:…), or custom data from a file,
 * a folder or an array.
 *
 * @example
 * const columns = { textColumn: ["review"], labelColumn: "stars" };
 * const task = await loadTask({ data: "reviews.csv", ...columns });
 * const examples = await task.load("train");
 */
export async function loadTask(options: LoadTaskOptions): Promise<Task> {
  const { task, data } = options;
  if (task !== undefined || typeof data === "object" || data === undefined) {
    const extra = (["validationData", "testData", "labelMap"] as const).find((key) => options[key] !== undefined);
    if (extra !== undefined)
      throw new UserError(`${toFlag(extra)} is for custom data. Pass it with --data FILE, and without --task.`);
  }
  if (typeof data === "object") {
    const extra = (["task", "textColumn", "labelColumn"] as const).find((key) => options[key] !== undefined);
    if (extra !== undefined) throw new UserError(`${extra} cannot be combined with an array of examples. Remove one.`);
    return loadInMemoryTask(data, options);
  }
  const remote = [task, data].find((reference) => reference?.startsWith("hf:"));
  if (remote !== undefined) {
    // Import the client of the Hugging Face Hub only if it is needed.
    const { loadHubTask } = await import("./hub.js");
    return loadHubTask(remote, options);
  }
  if (task === undefined) {
    if (data === undefined)
      throw new UserError(`Expected a task (--task ${taskNames[0]}) or custom data (${customDataExample}).`);
    return loadCustomTask(data, options);
  }
  const [name = "", revision] = task.split(/@(.*)/, 2);
  const load = loaders.get(normalizeTaskName(name));
  if (load === undefined) {
    throw new UserError(
      `Unknown task "${name}"${didYouMean(name, taskNames)}. Use one of ${taskNames.join(", ")}, or hf:OWNER/NAME. ` +
        `For custom data, omit --task: ${customDataExample}`,
    );
  }
  if (revision !== undefined && tasksWithoutHub.test(normalizeTaskName(name)))
    throw new UserError(`${task}: ${name} is not on the Hugging Face Hub and has no revisions. Use --task ${name}.`);
  return load(data, { ...options, revision });
}

/** Tasks that come with a package or from the user's disk only. */
const tasksWithoutHub = /^(spam|msgs:.*)$/;

/** The fields of a task that may be edited, without its data; null if all may be. */
export function findModifiableFields(task: string): readonly number[] | null {
  const name = normalizeTaskName(task.split("@", 1)[0]!).replace(/^advglue:/, "");
  if (name === "snli") return snliModifiableFields;
  return glueDatasets[name as GlueName]?.modifiableFields ?? null;
}

/** Whether data is on the Hugging Face Hub. */
export function isRemoteData(data: string): boolean {
  return data.startsWith("hf:");
}

/** Finds where a task is on the hub, without a download; null if its data is on disk. */
export async function findTaskSource(options: LoadTaskOptions): Promise<DatasetSource | null> {
  const remote = [options.task, options.data].find(
    (reference) => typeof reference === "string" && reference.startsWith("hf:"),
  );
  if (typeof remote === "string") return (await import("./hub.js")).findHubSource(remote);
  return options.task === undefined ? null : ((await loadTask(options)).source ?? null);
}

/** Maps spellings such as SST-2, sst_2 and Sst2 to the task name. */
function normalizeTaskName(name: string): string {
  const simplify = (text: string) => text.toLowerCase().replace(/[^a-z0-9:]/g, "");
  return taskNames.find((known) => known === name || simplify(known) === simplify(name)) ?? name;
}

export type { Example } from "./example.js";
