import { UserError } from "../errors.js";
import { didYouMean } from "../near-miss.js";
import { advglueParts, openAdvgluePart } from "./advglue.js";
import { glueNames, openGlue } from "./glue.js";
import { openImdb } from "./imdb.js";
import { openMr } from "./mr.js";
import { msgsProbes, openMsgs } from "./msgs.js";
import { type OwnOptions, openOwn } from "./own.js";
import { openSnli } from "./snli.js";
import { openSpam } from "./spam.js";
import type { Task } from "./task.js";

export interface OpenTaskOptions extends OwnOptions {
  /** A name of `taskNames`, or hf:OWNER/NAME[/CONFIG]; none for a table of the user's own. */
  readonly task?: string | undefined;
  /** The folder or file of the data. */
  readonly data?: string | undefined;
}

type Open = (options: OpenTaskOptions) => Promise<Task>;

const registry = new Map<string, Open>([
  ...glueNames.map((name): [string, Open] => [name, (options) => openGlue(name, options.data, options)]),
  ...advglueParts.map((part): [string, Open] => [`advglue:${part}`, (options) => openAdvgluePart(part, options.data, options)]),
  ["snli", (options) => openSnli(options.data, options)],
  ["imdb", (options) => openImdb(options.data, options)],
  ["mr", (options) => openMr(options.data)],
  ["spam", (options) => openSpam(options.data, options)],
  ...msgsProbes.map((probe): [string, Open] => [`msgs:${probe}`, (options) => openMsgs(probe, options.data, options)]),
]);

/** The tasks that are known by name. */
export const taskNames: readonly string[] = [...registry.keys()];

/** Opens a task by its name, from the hub (hf:…), or from a table of the user's own where only data is given. */
export async function openTask(options: OpenTaskOptions): Promise<Task> {
  const { task, data } = options;
  const remote = [task, data].find((reference) => reference?.startsWith("hf:"));
  if (remote !== undefined) {
    // Only who asks for the hub waits for its client to load.
    const { openHubTask } = await import("./hub.js");
    return openHubTask(remote, options);
  }
  if (task === undefined) {
    if (data === undefined)
      throw new UserError(`expected a task (--task ${taskNames[0]}) or a table (--data reviews.csv --text review --label stars)`);
    return openOwn(data, options);
  }
  const open = registry.get(task) ?? registry.get(plainName(task));
  if (open === undefined) {
    throw new UserError(
      `unknown task "${task}"${didYouMean(task, taskNames)}; the tasks are ${taskNames.join(", ")}, or hf:OWNER/NAME. ` +
        "For a table of your own leave --task out: --data reviews.csv --text review --label stars",
    );
  }
  return open(options);
}

/** SST-2, sst_2 and Sst2 are one name. */
function plainName(name: string): string {
  const squeezed = (text: string) => text.toLowerCase().replace(/[^a-z0-9:]/g, "");
  return taskNames.find((known) => squeezed(known) === squeezed(name)) ?? name;
}
