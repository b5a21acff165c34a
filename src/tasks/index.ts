import { didYouMean } from "../did-you-mean.js";
import { UserError } from "../errors.js";
import { advglueParts, loadAdvglueTask } from "./advglue.js";
import { type CustomTaskOptions, loadCustomTask } from "./custom-task.js";
import { glueNames, loadGlueTask } from "./glue.js";
import { loadImdbTask } from "./imdb.js";
import { loadMrTask } from "./mr.js";
import { loadMsgsTask, msgsProbes } from "./msgs.js";
import { loadSnliTask } from "./snli.js";
import { loadSpamTask } from "./spam.js";
import type { Task } from "./task.js";

export interface LoadTaskOptions extends CustomTaskOptions {
  /** A name of `taskNames`, or hf:OWNER/NAME[/CONFIG]; none for a table of the user's own. */
  readonly task?: string | undefined;
  /** The folder or file of the data. */
  readonly data?: string | undefined;
}

type TaskLoader = (options: LoadTaskOptions) => Promise<Task>;

const registry = new Map<string, TaskLoader>([
  ...glueNames.map((name): [string, TaskLoader] => [name, (options) => loadGlueTask(name, options.data, options)]),
  ...advglueParts.map((part): [string, TaskLoader] => [
    `advglue:${part}`,
    (options) => loadAdvglueTask(part, options.data, options),
  ]),
  ["snli", (options) => loadSnliTask(options.data, options)],
  ["imdb", (options) => loadImdbTask(options.data, options)],
  ["mr", (options) => loadMrTask(options.data)],
  ["spam", (options) => loadSpamTask(options.data, options)],
  ...msgsProbes.map((probe): [string, TaskLoader] => [
    `msgs:${probe}`,
    (options) => loadMsgsTask(probe, options.data, options),
  ]),
]);

/** The tasks that are known by name. */
export const taskNames: readonly string[] = [...registry.keys()];

/** Opens a task by its name, from the hub (hf:…), or from a table of the user's own where only data is given. */
export async function loadTask(options: LoadTaskOptions): Promise<Task> {
  const { task, data } = options;
  const remote = [task, data].find((reference) => reference?.startsWith("hf:"));
  if (remote !== undefined) {
    // Only who asks for the hub waits for its client to load.
    const { loadHubTask: openHubTask } = await import("./hub.js");
    return openHubTask(remote, options);
  }
  if (task === undefined) {
    if (data === undefined)
      throw new UserError(
        `expected a task (--task ${taskNames[0]}) or a table (--data reviews.csv --text-column review --label-column stars)`,
      );
    return loadCustomTask(data, options);
  }
  const open = registry.get(task) ?? registry.get(normalizeTaskName(task));
  if (open === undefined) {
    throw new UserError(
      `unknown task "${task}"${didYouMean(task, taskNames)}; the tasks are ${taskNames.join(", ")}, or hf:OWNER/NAME. ` +
        "For a table of your own leave --task out: --data reviews.csv --text-column review --label-column stars",
    );
  }
  return open(options);
}

/** SST-2, sst_2 and Sst2 are one name. */
function normalizeTaskName(name: string): string {
  const squeezed = (text: string) => text.toLowerCase().replace(/[^a-z0-9:]/g, "");
  return taskNames.find((known) => squeezed(known) === squeezed(name)) ?? name;
}
