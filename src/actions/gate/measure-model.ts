import { readJournal } from "../../attacks/journal.js";
import type { AttackResult } from "../../attacks/result.js";
import { UserError } from "../../base/errors.js";
import type { Callbacks } from "../../base/events.js";
import { clearFolder } from "../../base/owned-folder.js";
import { findJournals, getJournalPath, isAttackFile } from "../../runs/attack-folder.js";
import { attack } from "../attack/attack.js";
import type { AttackRequest } from "../attack/attack-request.js";
import { isEndpoint } from "../load/load-victim.js";
import type { GivenExamples } from "../open-victim.js";
import type { Measurement, PinnedAttack } from "./gate-lock.js";

/** What a model did with the texts of a gate. */
export interface MeasuredModel {
  /** By example. */
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
  pinned: PinnedAttack,
  runtime: Pick<AttackRequest, "device" | "threads" | "endpoint">,
  callbacks: Callbacks,
): Promise<MeasuredModel> {
  await clearFolder(folder, "gate", isAttackFile);
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
      // Without libtorch there is no filter, and attacks with and without one cannot be compared.
      hashes["context filter"] = String(header.settings.contextEncoder ?? "none");
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
