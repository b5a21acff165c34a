import { didYouMean } from "../base/did-you-mean.js";
import { UserError } from "../base/errors.js";
import { toFlag } from "../base/shell.js";
import { advglueTasks } from "./advglue.js";
import { agNews } from "./ag-news.js";
import { type BuiltInTask, loadBuiltInTask } from "./built-in-task.js";
import { type CustomTaskOptions, type InMemoryExample, loadCustomTask, loadInMemoryTask } from "./custom-task.js";
import { type GlueName, glueTasks } from "./glue.js";
import { imdb } from "./imdb.js";
import { mr } from "./mr.js";
import { createMsgsTask, msgsProbes } from "./msgs.js";
import { snli } from "./snli.js";
import { loadSpamTask } from "./spam.js";
import type { DatasetSource, Task } from "./task.js";

export { type InMemoryExample, writeExamplesFile } from "./custom-task.js";
export { computeDedupKey, splitExamples } from "./split-examples.js";
export { formatSplit, parseSplit, type Split, type Task } from "./task.js";

export interface LoadTaskOptions extends CustomTaskOptions {
  /** A name from `taskNames` or hf:OWNER/NAME[/CONFIG], with `@REVISION`. Omit it for own data. */
  readonly task?: string | undefined;
  readonly data?: string | readonly InMemoryExample[] | undefined;
}

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

const builtIn: ReadonlyMap<string, BuiltInTask> = new Map(
  [...glueTasks, ...advglueTasks, snli, imdb, mr, agNews, ...msgsProbes.map(createMsgsTask)].map((task) => [
    task.name,
    task,
  ]),
);

export const taskNames: readonly string[] = [...builtIn.keys(), "spam"];

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
  const [given = "", revision] = task.split(/@(.*)/, 2);
  const name = normalizeTaskName(given);
  if (!taskNames.includes(name))
    throw new UserError(
      `Unknown task "${name}"${didYouMean(name, taskNames)}. Use one of ${taskNames.join(", ")}, or hf:OWNER/NAME. ` +
        `For custom data, omit --task: ${customDataExample}`,
    );
  const definition = builtIn.get(name);
  if (revision !== undefined && !definition?.hub)
    throw new UserError(`${task}: ${name} is not on the Hugging Face Hub and has no revisions. Use --task ${name}.`);
  return definition ? loadBuiltInTask(definition, data, { ...options, revision }) : loadSpamTask(data, options);
}

/** The fields of a task that may be edited, without its data; null if all may be. */
export function findModifiableFields(task: string): readonly number[] | null {
  return builtIn.get(normalizeTaskName(task.split("@", 1)[0]!))?.modifiableFields ?? null;
}

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
