import { z } from "zod";
import { UserError } from "../errors.js";
import type { Model } from "../models/index.js";
import { loadTask, type Task, taskNames } from "../tasks/index.js";
import { dataOptions } from "./config.js";
import { loadConfiguredTask } from "./prepare-run.js";
import type { Run } from "./run.js";

export { dataOptions };

const schema = z.object(dataOptions);

/**
 * Loads the task that a request names; without one, the task of the model's run or the one in the
 * model's config.
 */
export async function loadRequestedTask(
  request: z.output<typeof schema>,
  model: Pick<Model, "task" | "labels"> | null,
  run: Run | null,
  onWarning: (message: string) => void,
): Promise<Task> {
  const { data, textColumn, labelColumn, skipBadRows } = request;
  const isNamed = request.task !== null || data !== null;
  if (!isNamed && run) return loadConfiguredTask(run.config, onWarning);
  const trained = !isNamed && model?.task && taskNames.includes(model.task) ? model.task : null;
  const task = request.task ?? trained;
  if (task === null && data === null)
    throw new UserError(
      `Expected a task (--task ${taskNames[0]}) ` +
        "or a file (--data reviews.csv --text-column review --label-column stars).",
    );
  return loadTask({
    ...(task !== null && { task }),
    ...(data !== null && { data }),
    ...(textColumn.length > 0 && { textColumn }),
    ...(labelColumn !== null && { labelColumn }),
    // A file of the user's is evaluated as a whole, with the labels of the model.
    ...(task === null && { evaluationOnly: true, ...(model && { labels: model.labels }) }),
    skipBadRows,
    onWarning,
  });
}
