import { UserError } from "../../base/errors.js";
import type { Callbacks } from "../../base/events.js";
import type { Model } from "../../models/index.js";
import type { RunFolder } from "../../runs/run-folder.js";
import { type DataRequest, flattenData, type RunConfig } from "../../settings/config.js";
import {
  type Example,
  type LoadTaskOptions,
  loadTask,
  type Task,
  type TaskReference,
  taskNames,
} from "../../tasks/index.js";
import { sampleExamples } from "../../tasks/sample.js";

export async function loadRequestedTask(
  requested: DataRequest & { readonly slices?: string | null | undefined },
  model: Pick<Model, "task" | "labels"> | null,
  run: RunFolder | null,
  callbacks: TaskCallbacks,
): Promise<Task> {
  const request = { ...flattenData(requested), slices: requested.slices };
  if (request.task !== null || request.data !== null) {
    // A file of the user's is evaluated as a whole, with the labels of the model.
    if (request.task !== null) return loadConfiguredTask(request, callbacks);
    // Columns that the request does not name are those of the run, if the run read a file, too.
    const isFile = typeof request.data === "string";
    const known = isFile && run?.config.task === null ? run.config : null;
    const columns = {
      textColumn: request.textColumn.length > 0 ? request.textColumn : (known?.textColumn ?? []),
      labelColumn: request.labelColumn ?? known?.labelColumn ?? null,
      labelMap: request.labelMap ?? known?.labelMap ?? null,
    };
    const options = { evaluationOnly: true, labels: model?.labels };
    return loadConfiguredTask({ ...request, ...columns }, callbacks, options);
  }
  if (run) return loadConfiguredTask({ ...run.config, slices: requested.slices }, callbacks);
  if (model?.task && taskNames.includes(model.task))
    return loadConfiguredTask({ ...request, task: model.task as TaskReference }, callbacks);
  throw new UserError(
    `Expected a task (--task ${taskNames[0]}) or a file ` +
      "(--data reviews.csv --text-column review --label-column stars).",
  );
}

export type TaskCallbacks = Pick<Callbacks, "onEvent">;

export function loadConfiguredTask(
  request: DataRequest & { readonly slices?: string | null | undefined } & Partial<
      Pick<RunConfig, "validationData" | "testData">
    >,
  { onEvent }: TaskCallbacks,
  options: Pick<LoadTaskOptions, "evaluationOnly" | "labels" | "maxSkippedFraction"> = {},
): Promise<Task> {
  const { task, data, textColumn, labelColumn, labelMap, validationData, testData, skipBadRows } = flattenData(request);
  return loadTask({
    ...options,
    ...(task !== null && { task }),
    ...(data !== null && { data }),
    ...(textColumn.length > 0 && { textColumn }),
    ...(labelColumn !== null && { labelColumn }),
    ...(labelMap !== null && { labelMap }),
    ...(validationData && { validationData }),
    ...(testData && { testData }),
    ...(request.slices != null && { sliceColumn: request.slices }),
    skipBadRows,
    onEvent,
  });
}

export function limitExamples(
  task: Task,
  examples: readonly Example[],
  count: number | null,
  seed: number,
): readonly Example[] {
  if (count === null || count >= examples.length) return examples;
  return sampleExamples(examples, count, seed, task.labels.length);
}
