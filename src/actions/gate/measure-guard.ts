import { type Callbacks, reportProgress } from "../../base/events.js";
import { readCalibration } from "../../runs/calibration.js";
import type { EvaluationResult } from "../../runs/results.js";
import { RunFolder } from "../../runs/run-folder.js";
import type { RuntimeOptions } from "../../settings/runtime-config.js";
import { evaluateExamples } from "../evaluate/evaluate.js";
import { isEndpoint } from "../load/load-victim.js";
import type { GivenExamples } from "../open-victim.js";
import { loadClassifier } from "../predict/text-classifier.js";

/** What the calibrated guard of a candidate does with the texts of a gate; null if it has none. */
export async function measureGuard(
  model: string,
  { task, examples }: GivenExamples,
  { device, threads }: Pick<RuntimeOptions, "device" | "threads">,
  callbacks: Callbacks,
): Promise<NonNullable<EvaluationResult["guard"]> | null> {
  const run = isEndpoint(model) ? null : await RunFolder.containing(model);
  const calibration = run && (await readCalibration(run.folder));
  if (!calibration) return null;
  const { windows, positiveLabel } = calibration;
  const options = { device, threads, precision: "fp32", windows, positiveLabel } as const;
  await using classifier = await loadClassifier(model, { ...options, onEvent: callbacks.onEvent });
  const { model: loaded, runtime, use } = classifier;
  const result = await evaluateExamples(loaded, task, examples, "test", runtime, {
    ...use,
    onProgress: (done, total) => reportProgress(callbacks, "guard", done, total),
  });
  return result.guard ?? null;
}
