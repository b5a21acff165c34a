import type { RunConfig } from "../../runs/config.js";
import { free } from "../../tensor/index.js";
import { type Ranks, type TrainingCallbacks, train } from "../../train/index.js";
import type { Callbacks } from "../callbacks.js";
import { evaluateExamples } from "../evaluate/evaluate.js";
import { checkBatchSize, checkSameInputs, checkSameSettings } from "./check-ranks.js";
import { describeEnvironment } from "./describe-environment.js";
import { prepareRun } from "./prepare-run.js";

/** What the other processes accept besides the config. */
export interface JoinOptions extends Pick<Callbacks, "signal"> {
  /** Called before the first step. */
  readonly onStart?: TrainingCallbacks["onStart"];
}

/**
 * The part of the other processes in `fineTune` of process 0: the same data, model and steps, but
 * no files.
 */
export async function joinFineTune(config: RunConfig, ranks: Ranks, options: JoinOptions = {}): Promise<void> {
  checkBatchSize(ranks, config);
  if (checkSameSettings(ranks, config, false)) return;
  const prepared = await prepareRun(config);
  const { job, runtime, examples } = prepared;
  try {
    const table = await job.loadSubstitutions?.();
    checkSameInputs(ranks, await describeEnvironment(prepared, table?.hash ?? null, null), examples.test);
    const { signal, onStart } = options;
    await train({
      ...job,
      ranks,
      files: null,
      resume: false,
      ...(onStart && { callbacks: { onStart } }),
      ...(signal && { signal }),
    });
    await evaluateExamples(job.model, job.task, examples.test, "test", runtime, undefined, ranks);
  } finally {
    free(job.model.weights);
  }
}
