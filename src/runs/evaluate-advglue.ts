import { UserError } from "../errors.js";
import type { Model } from "../models/index.js";
import { advglueParts } from "../tasks/advglue.js";
import { loadTask } from "../tasks/index.js";
import type { Placement } from "../train/index.js";
import { type EvaluateSplitOptions, evaluateSplit } from "./evaluate.js";
import type { EvaluationResult } from "./results.js";

/** A model on its own GLUE task and on the adversarial texts that were made against that task. */
export interface AdvglueResult {
  readonly task: string;
  readonly glue: EvaluationResult;
  readonly advglue: EvaluationResult;
  /** How much accuracy the adversarial texts cost. */
  readonly drop: number;
}

export async function evaluateAdvglue(
  model: Model,
  data: string | undefined,
  deviceConfig: Placement,
  options: EvaluateSplitOptions = {},
): Promise<AdvglueResult> {
  const name = advglueParts.find((part) => part === model.task);
  if (name === undefined)
    throw new UserError(
      `advglue: expected a model trained on one of ${advglueParts.join(", ")}, received one ${model.task ? `trained on ${model.task}` : "of an unknown task"}; ` +
        "name a part: --task advglue:sst2",
    );
  // A file can only be AdvGLUE's own; GLUE then lies in one of the usual places.
  const glueTask = await loadTask({ task: name, data: data?.endsWith(".json") ? undefined : data });
  const advglueTask = await loadTask({ task: `advglue:${name}`, data });
  const glue = await evaluateSplit(model, glueTask, "dev", deviceConfig, options);
  const advglue = await evaluateSplit(model, advglueTask, "dev", deviceConfig, options);
  return { task: name, glue, advglue, drop: glue.accuracy - advglue.accuracy };
}
