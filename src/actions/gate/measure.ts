import { readJournal } from "../../attacks/journal.js";
import type { AttackResult } from "../../attacks/result.js";
import { UserError } from "../../base/errors.js";
import { type Callbacks, reportProgress, warn } from "../../base/events.js";
import { formatCount } from "../../base/format.js";
import { clearFolder } from "../../base/owned-folder.js";
import { isAttackFile } from "../../runs/attack-folder.js";
import { readCalibration } from "../../runs/calibration.js";
import { hashExamples } from "../../runs/environment.js";
import type { EvaluationResult } from "../../runs/results.js";
import { RunFolder } from "../../runs/run-folder.js";
import { flattenData } from "../../settings/config.js";
import type { RuntimeOptions } from "../../settings/runtime-config.js";
import type { Example } from "../../tasks/index.js";
import type { AttackRequest } from "../attack/attack-request.js";
import { evaluateExamples } from "../evaluate.js";
import { loadRequestedTask } from "../load/load-task.js";
import { isEndpoint, type LoadVictimOptions } from "../load/load-victim.js";
import { type GivenExamples, openVictim } from "../load/open-victim.js";
import { measureAttacks } from "../measure/attacked.js";
import { askModel, summarizeAnswers } from "../measure/clean.js";
import { loadClassifier } from "../predict/text-classifier.js";
import type { GateLock, Measurement } from "./gate-lock.js";
import type { ParsedGateRequest } from "./gate-request.js";

export interface MeasuredModel {
  readonly measurements: ReadonlyMap<string, Measurement>;
  /** The results of the attacks by example and attack, for diffs. */
  readonly results: ReadonlyMap<string, ReadonlyMap<string, AttackResult>>;
  /** Predictions before the attack. Rows are gold labels. */
  readonly confusionMatrix: readonly (readonly number[])[];
  /** Of the examples, the substitutions and the filter by context. */
  readonly hashes: Readonly<Record<string, string>>;
}

/**
 * Attacks a model over given examples. The scores of a local model are cached by its hash. The
 * model behind an endpoint can change, so its scores are not.
 */
export async function measureModel(
  model: string,
  folder: string,
  given: GivenExamples,
  pinned: GateLock["attack"],
  runtime: Pick<AttackRequest, "device" | "threads" | "endpoint">,
  callbacks: Callbacks,
): Promise<MeasuredModel> {
  await clearFolder(folder, "gate", isAttackFile);
  const request = { ...pinned, ...runtime, model, out: folder, cache: !isEndpoint(model) };
  const { summary, journals } = await measureAttacks(request, callbacks, given);
  const measurements = new Map<string, Measurement>();
  const results = new Map<string, Map<string, AttackResult>>();
  const hashes: Record<string, string> = {};
  for (const [attack, { path, header }] of journals) {
    for (const key of ["data", "substitutions"]) if (header.hashes[key] !== undefined) hashes[key] = header.hashes[key];
    // Without libtorch there is no filter, and attacks with and without one cannot be compared.
    hashes["context filter"] = String(header.settings.contextEncoder ?? "none");
    for await (const { result } of readJournal(path)) {
      const { id, goal, outcome, label, before, after } = result;
      if (goal !== undefined)
        throw new UserError(`attack ${attack}: a gate counts wrong classes, so the goal ${goal} cannot be used.`);
      const others = measurements.get(id)?.attacks;
      measurements.set(id, {
        clean: before[label]!,
        isCorrect: outcome !== "skipped",
        attacks: { ...others, [attack]: { score: after[label]!, isRobust: outcome === "failed" } },
      });
      results.set(id, (results.get(id) ?? new Map<string, AttackResult>()).set(attack, result));
    }
  }
  return { measurements, results, confusionMatrix: summary!.confusionMatrix, hashes };
}

/** Classifies a whole split in float32, which costs less than the attack on a few of its texts. */
export async function measureSplit(
  model: string,
  { task, examples }: GivenExamples,
  { positiveLabel, ...runtime }: LoadVictimOptions & Pick<ParsedGateRequest, "positiveLabel">,
  callbacks: Callbacks,
): Promise<EvaluationResult> {
  await using opened = await openVictim({ ...runtime, model, precision: "fp32", onEvent: callbacks.onEvent });
  opened.checkTask(task);
  const texts = examples.map((example) => example.texts);
  const answers = (await askModel(opened.victim, texts, "evaluate", callbacks)).map((probabilities) => ({
    probabilities,
  }));
  const measured = { name: task.name, split: "test", labels: task.labels } as const;
  return summarizeAnswers(measured, examples, answers, { positiveLabel });
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

export async function measureGuard(
  model: string,
  { task, examples }: GivenExamples,
  { device, threads }: Pick<RuntimeOptions, "device" | "threads">,
  callbacks: Callbacks,
): Promise<EvaluationResult | null> {
  const run = isEndpoint(model) ? null : await RunFolder.containing(model);
  const calibration = run && (await readCalibration(run.folder));
  if (!calibration) return null;
  const { windows, positiveLabel } = calibration;
  const options = { device, threads, precision: "fp32", windows, positiveLabel } as const;
  await using classifier = await loadClassifier(model, { ...options, onEvent: callbacks.onEvent });
  const { model: loaded, runtime, use } = classifier;
  // Without await, the model would be freed before it is evaluated.
  return await evaluateExamples(loaded, task, examples, "test", runtime, {
    ...use,
    onProgress: (done, total) => reportProgress(callbacks, "guard", done, total),
  });
}

export async function requireCertifiedRun(model: string): Promise<RunFolder> {
  const run = isEndpoint(model) ? null : await RunFolder.containing(model);
  if (run?.certificate) return run;
  throw new UserError(
    `--min-certified: expected a run that was trained for a certificate, received ${run ? model : "another model"}. ` +
      "Train one with --method hash-vote, or leave the option out.",
  );
}
