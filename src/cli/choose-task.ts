import { UserError } from "../errors.js";
import type { Model } from "../models/model.js";
import { openConfigTask } from "../runs/open.js";
import type { RunOfModel } from "../runs/run-of-model.js";
import { openTask, taskNames } from "../tasks/index.js";
import type { Task } from "../tasks/task.js";
import type { Io } from "./io.js";

/** The options that name data. */
export interface TaskChoice {
  task?: string | undefined;
  data?: string | undefined;
  text?: readonly string[] | undefined;
  label?: string | undefined;
  skipBadRows?: true | undefined;
  quiet?: true | undefined;
}

/** The task that is named; where neither a task nor data is, that of the model's run, or the one the model was trained on. */
export async function chooseTask(
  io: Io,
  model: Pick<Model, "task" | "labels"> | null,
  run: RunOfModel | null,
  options: TaskChoice,
): Promise<Task> {
  const { data, text, label, skipBadRows } = options;
  const onNotice = (message: string): void => void (options.quiet || io.stderr.write(`note: ${message}\n`));
  const isNamed = options.task !== undefined || data !== undefined;
  if (!isNamed && run) return openConfigTask(run.config, onNotice);
  const own = !isNamed && model?.task && taskNames.includes(model.task) ? model.task : undefined;
  const task = options.task ?? own;
  if (task === undefined && data === undefined)
    throw new UserError(`expected a task (--task ${taskNames[0]}) or a table (--data reviews.csv --text review --label stars)`);
  // A table of one's own is read with the labels that the model has, and whole.
  const table = task === undefined ? { labels: model?.labels, whole: true } : {};
  return openTask({ task, data, text, label, skipBadRows, ...table, onNotice });
}
