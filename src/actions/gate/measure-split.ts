import { UserError } from "../../base/errors.js";
import { type Callbacks, reportProgress, warn } from "../../base/events.js";
import { formatCount } from "../../base/format.js";
import { describeDegeneratePredictions } from "../../evaluation/degenerate.js";
import { toPredictions } from "../../evaluation/metrics.js";
import { hashExamples } from "../../runs/environment.js";
import { RunFolder } from "../../runs/run-folder.js";
import { flattenData } from "../../settings/config.js";
import type { Example } from "../../tasks/index.js";
import { loadRequestedTask } from "../load/load-task.js";
import { isEndpoint, type LoadVictimOptions } from "../load/load-victim.js";
import { type GivenExamples, openVictim } from "../open-victim.js";
import type { CleanMeasurement, GateLock } from "./gate-lock.js";
import type { ParsedGateRequest } from "./gate-request.js";

/** What a model did with all texts of a split, without an attack. */
export interface MeasuredSplit {
  readonly clean: CleanMeasurement;
  /** Why the model is degenerate; null if it is not. */
  readonly degeneracy: string | null;
}

/** Texts per call, so that progress is visible. */
const maxCallSize = 1024;

/** Classifies a whole split in float32, which costs less than the attack on a few of its texts. */
export async function measureSplit(
  model: string,
  { task, examples }: GivenExamples,
  runtime: LoadVictimOptions,
  callbacks: Callbacks,
): Promise<MeasuredSplit> {
  await using opened = await openVictim({ ...runtime, model, precision: "fp32", onEvent: callbacks.onEvent });
  opened.checkTask(task);
  const texts = examples.map((example) => example.texts);
  let done = 0;
  const answers = await opened.victim.predict(opened.victim.prepare(texts), {
    maxCallSize,
    onCall(found) {
      done += found.size;
      reportProgress(callbacks, "evaluate", done, texts.length);
    },
  });
  const predicted = toPredictions(answers.map(({ probabilities }) => probabilities));
  const gold = examples.map(({ label }) => label);
  return {
    clean: {
      examples: hashExamples(examples),
      correct: gold.map((label, i) => Number(predicted[i] === label)).join(""),
    },
    degeneracy: describeDegeneratePredictions(predicted, gold, task.labels),
  };
}

/**
 * The split that the baseline of a lock was measured on, from --data or the data of the candidate.
 * Null with a warning if it is not here: a gate with a lock works without a dataset.
 */
export async function loadLockedSplit(
  request: ParsedGateRequest,
  { task: { name, labels, split }, clean, examples: attacked }: GateLock,
  callbacks: Callbacks,
): Promise<readonly Example[] | null> {
  const { model, baseline } = request;
  const { data } = flattenData(request);
  const run = isEndpoint(model) ? null : await RunFolder.containing(model);
  const isOfTask = run !== null && (run.config.task === null || run.config.task === name);
  const load = async (): Promise<readonly Example[]> => {
    const task = await loadRequestedTask(request, { task: name, labels }, isOfTask ? run : null, callbacks);
    const examples = await task.load(split);
    if (hashExamples(examples) === clean.examples) return examples;
    throw new UserError(`${typeof data === "string" ? data : name}: the texts differ from those of ${baseline}.`);
  };
  try {
    return await load();
  } catch (error) {
    if (!(error instanceof UserError) || data !== null) throw error;
    warn(
      callbacks,
      `Clean accuracy is compared on the ${formatCount(attacked.length)} attacked texts of ${baseline} only, because its ` +
        `${split} split of ${formatCount(clean.correct.length)} texts was not found. Name it with --data.`,
    );
    return null;
  }
}
