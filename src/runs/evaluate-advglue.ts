import { UserError } from "../errors.js";
import type { Model } from "../models/index.js";
import { advglueParts } from "../tasks/advglue.js";
import { openTask } from "../tasks/index.js";
import type { Placement } from "../train/index.js";
import { type EvaluateSplitOptions, evaluateSplit } from "./evaluate.js";
import type { SplitReport } from "./results.js";

/** A model on its own GLUE task and on the adversarial texts that were made against that task. */
export interface AdvglueReport {
  readonly task: string;
  readonly glue: SplitReport;
  readonly advglue: SplitReport;
  /** How much accuracy the adversarial texts cost. */
  readonly drop: number;
}

export async function evaluateAdvglue(
  model: Model,
  data: string | undefined,
  placement: Placement,
  options: EvaluateSplitOptions = {},
): Promise<AdvglueReport> {
  const name = advglueParts.find((part) => part === model.task);
  if (name === undefined)
    throw new UserError(
      `advglue: expected a model trained on one of ${advglueParts.join(", ")}, received one ${model.task ? `trained on ${model.task}` : "of an unknown task"}; ` +
        "name a part: --task advglue:sst2",
    );
  // A file can only be AdvGLUE's own; GLUE then lies in one of the usual places.
  const glueTask = await openTask({ task: name, data: data?.endsWith(".json") ? undefined : data });
  const advglueTask = await openTask({ task: `advglue:${name}`, data });
  const glue = await evaluateSplit(model, glueTask, "dev", placement, options);
  const advglue = await evaluateSplit(model, advglueTask, "dev", placement, options);
  return { task: name, glue, advglue, drop: glue.accuracy - advglue.accuracy };
}
