import type { Callbacks } from "../../base/events.js";
import type { ResolvedRun } from "../../settings/read-config.js";
import { free } from "../../tensor/index.js";
import { type Ranks, train } from "../../train/index.js";
import { evaluateExamples } from "../evaluate/evaluate.js";
import { checkBatchSize, checkSameInputs, checkSameSettings } from "./check-ranks.js";
import { describeEnvironment } from "./describe-environment.js";
import { findPreparedModel, prepareRun } from "./prepare-run.js";

/**
 * The part of the other processes in `trainResolved` of process 0: the same data, model and steps,
 * but no files.
 */
export async function joinTraining(run: ResolvedRun, ranks: Ranks, callbacks: Callbacks = {}): Promise<void> {
  const { config } = run;
  checkBatchSize(ranks, config);
  if (checkSameSettings(ranks, config, false)) return;
  const prepared = await prepareRun(run);
  const { job, runtime, examples } = prepared;
  try {
    const table = await job.loadSubstitutions?.();
    checkSameInputs(ranks, await describeEnvironment(prepared, table?.hash ?? null, null), examples.test);
    await train({ ...job, ...callbacks, ranks, files: null, resume: false });
    const certified = findPreparedModel(prepared);
    await evaluateExamples(job.model, job.task, examples.test, "test", runtime, ranks, { certified });
  } finally {
    free(job.model.weights);
  }
}
