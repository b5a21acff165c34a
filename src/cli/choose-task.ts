import { UserError } from "../errors.js";
import type { Model } from "../models/model.js";
import { loadTaskFromConfig } from "../runs/prepare-run.js";
import type { TrainingRun } from "../runs/run-of-model.js";
import { loadTask, taskNames } from "../tasks/index.js";
import type { Task } from "../tasks/task.js";
import type { Io } from "./io.js";

/** The options that name data. */
export interface TaskCommandOptions {
  task?: string | undefined;
  data?: string | undefined;
  textColumn?: readonly string[] | undefined;
  labelColumn?: string | undefined;
  skipBadRows?: true | undefined;
  quiet?: true | undefined;
}

/** The task that is named; where neither a task nor data is, that of the model's run, or the one the model was trained on. */
export async function chooseTask(
  io: Io,
  model: Pick<Model, "task" | "labels"> | null,
  run: TrainingRun | null,
  options: TaskCommandOptions,
): Promise<Task> {
  const { data, textColumn, labelColumn, skipBadRows } = options;
  const onWarning = (message: string): void => void (options.quiet || io.stderr.write(`note: ${message}\n`));
  const isNamed = options.task !== undefined || data !== undefined;
  if (!isNamed && run) return loadTaskFromConfig(run.config, onWarning);
  const own = !isNamed && model?.task && taskNames.includes(model.task) ? model.task : undefined;
  const task = options.task ?? own;
  if (task === undefined && data === undefined)
    throw new UserError(
      `expected a task (--task ${taskNames[0]}) or a table (--data reviews.csv --text-column review --label-column stars)`,
    );
  // A table of one's own is read with the labels that the model has, and whole.
  const table = task === undefined ? { labels: model?.labels, evaluationOnly: true } : {};
  return loadTask({ task, data, textColumn, labelColumn, skipBadRows, ...table, onWarning: onWarning });
}
