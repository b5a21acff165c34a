import { rm } from "node:fs/promises";
import { readJournal } from "../../attacks/journal.js";
import type { AttackResult } from "../../attacks/result.js";
import { UserError } from "../../errors.js";
import { type Callbacks, reportProgress } from "../../events.js";
import { findJournals, getJournalPath } from "../../runs/attack-folder.js";
import type { Split, Task } from "../../tasks/index.js";
import { singleRank } from "../../train/index.js";
import { attack } from "../attack/attack.js";
import type { AttackRequest } from "../attack/attack-request.js";
import type { GivenExamples } from "../attack/prepare-attack.js";
import { evaluateExamples } from "../evaluate/evaluate.js";
import { isEndpoint } from "../load/load-victim.js";
import { loadClassifier } from "../predict/text-classifier.js";
import type { CleanMeasurement, Measurement, PinnedAttack } from "./gate-lock.js";

/** What a model did with the texts of a gate. */
export interface MeasuredModel {
  /** By example. */
  readonly measurements: ReadonlyMap<string, Measurement>;
  /** The results of the attacks by example and attack, for diffs. */
  readonly results: ReadonlyMap<string, ReadonlyMap<string, AttackResult>>;
  /** Predictions before the attack. Rows are gold labels. */
  readonly confusionMatrix: readonly (readonly number[])[];
  /** Of the examples and the substitutions. */
  readonly hashes: Readonly<Record<string, string>>;
}

type RuntimeRequest = Pick<
  AttackRequest,
  "endpoint" | "device" | "precision" | "threads" | "tokenization" | "maxLength"
>;

/**
 * Attacks a model over given examples. The scores of a local model are cached by its hash. The
 * model behind an endpoint can change, so its scores are not.
 */
export async function measureModel(
  model: string,
  folder: string,
  given: GivenExamples,
  pinned: PinnedAttack,
  runtime: RuntimeRequest,
  callbacks: Callbacks,
): Promise<MeasuredModel> {
  await rm(folder, { recursive: true, force: true });
  const request: AttackRequest = { ...pinned, ...runtime, model, out: folder, cache: !isEndpoint(model) };
  const { confusionMatrix } = await attack(request, callbacks, given);
  const measurements = new Map<string, Measurement>();
  const results = new Map<string, Map<string, AttackResult>>();
  const hashes: Record<string, string> = {};
  for (const name of await findJournals(folder))
    for await (const { header, result } of readJournal(getJournalPath(folder, name))) {
      if (result.goal !== undefined)
        throw new UserError(`attack ${name}: a gate counts wrong classes, so the goal ${result.goal} cannot be used.`);
      for (const key of ["data", "substitutions"])
        if (header.hashes[key] !== undefined) hashes[key] = header.hashes[key];
      const before = measurements.get(result.id);
      const isRobust = result.outcome === "failed";
      measurements.set(result.id, {
        clean: result.before[result.label]!,
        isCorrect: result.outcome !== "skipped",
        attacks: { ...before?.attacks, [name]: { score: result.after[result.label]!, isRobust } },
      });
      const byAttack = results.get(result.id) ?? new Map<string, AttackResult>();
      results.set(result.id, byAttack.set(name, result));
    }
  return { measurements, results, confusionMatrix, hashes };
}

/** A model on a whole split. */
export interface MeasuredSplit {
  readonly clean: CleanMeasurement;
  readonly confusionMatrix: readonly (readonly number[])[];
}

/**
 * Classifies a whole split without an attack, which is cheap and decides about small differences.
 * Null for an endpoint.
 */
export async function measureSplit(
  model: string,
  task: Task,
  split: Split,
  { device, precision, threads }: RuntimeRequest,
  callbacks: Callbacks,
): Promise<MeasuredSplit | null> {
  if (isEndpoint(model)) return null;
  await using classifier = await loadClassifier(model, {
    ...{ device, precision, threads },
    onEvent: callbacks.onEvent,
  });
  const examples = await task.load(split);
  const onBatch = (done: number, total: number): void => reportProgress(callbacks, "evaluate", done, total);
  const result = await evaluateExamples(
    classifier.model,
    task,
    examples,
    split,
    classifier.runtime,
    singleRank,
    onBatch,
  );
  return { clean: result.outcomes, confusionMatrix: result.confusionMatrix };
}
