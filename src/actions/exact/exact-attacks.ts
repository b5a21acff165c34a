import { maxWordsChanged, onlyFields } from "../../attacks/constraints/words.js";
import type { Attack } from "../../attacks/define-attack.js";
import type { JournalHeader } from "../../attacks/journal.js";
import { equipAttack } from "../../attacks/load-attack.js";
import { SearchPool } from "../../attacks/pool.js";
import type { AttackResources } from "../../attacks/resources.js";
import { runAttack } from "../../attacks/run-attack.js";
import { UserError } from "../../base/errors.js";
import { reportProgress } from "../../base/events.js";
import {
  type FoundText,
  getAttackPath,
  listSubstitutions,
  readFoundTexts,
  type SubstitutionList,
} from "../../proofs/index.js";
import { hashExamples } from "../../runs/environment.js";
import type { Example, Task } from "../../tasks/index.js";
import { Interrupted } from "../../train/index.js";
import type { LoadedVictim } from "../load/load-victim.js";
import type { ExactCallbacks, ParsedExactRequest } from "./exact-request.js";
import type { ExactText } from "./prepare-exact.js";

export interface PreparedExact {
  readonly request: ParsedExactRequest;
  readonly victim: LoadedVictim;
  readonly task: Task;
  readonly examples: readonly Example[];
  readonly texts: readonly ExactText[];
  readonly attacks: readonly Attack[];
  readonly resources: Partial<AttackResources>;
  /** The file of the proof, and its first line. */
  readonly path: string;
  readonly header: JournalHeader;
}

/** Attacks all examples, because levels from a success on need no enumeration. */
export async function runAttacks(
  { request, victim, task, examples, attacks, resources, path }: PreparedExact,
  callbacks: ExactCallbacks,
): Promise<void> {
  const { maxChanges, seed, split } = request;
  if (maxChanges === 0) return;
  const constraints = [onlyFields(task.modifiableFields), maxWordsChanged({ count: maxChanges })];
  const pool = new SearchPool(victim.victim, { concurrency: victim.concurrency });
  const total = examples.length;
  for (const attack of attacks) {
    const { name } = attack;
    // Every attack has the space of the enumeration, also those that ignore the letter case.
    const table = { ...resources, caseInsensitiveSubstitutes: resources.substitutions! };
    const ready = equipAttack(attack, table, constraints);
    if (!ready.recipe.transformations.every(({ isTable }) => isTable))
      throw new UserError(
        `--attack ${name}: expected an attack with the substitutes of the table, such as pwws, greedy or genetic. ` +
          "Others have other candidates, so there is nothing to compare.",
      );
    await runAttack({
      attack: ready,
      pool,
      examples,
      seed,
      journalPath: getAttackPath(path, name),
      resume: true,
      hashFirst: (count) => hashExamples(examples.slice(0, count)),
      settings: { task: task.name, split, ...victim.settings, maxChanges },
      onResult: (_, done) => reportProgress(callbacks, `attack ${name}`, done, total),
      signal: callbacks.signal,
    }).catch((error: unknown) => {
      // The same command continues the journal of the attack, too.
      stopIfAborted(callbacks, 0, examples);
      throw error;
    });
  }
}

export async function readAttacks({ request, attacks, path }: PreparedExact): Promise<FoundText[][]> {
  if (request.maxChanges === 0) return [];
  return Promise.all(attacks.map(({ name }) => readFoundTexts(path, name)));
}

/**
 * The smallest set of substitutions with which an attack fooled a text; null if none did. Of equal
 * substitutes, the reduced space has only one. A set with another one is left out.
 */
export function chooseBound(
  found: readonly (readonly FoundText[])[],
  { words }: ExactText,
  index: number,
): SubstitutionList | null {
  const allowed = new Set(listSubstitutions({ words }).map(([position, word]) => `${position} ${word}`));
  const sets = found
    .map((texts) => texts[index]!)
    .filter(({ outcome, edits }) => outcome === "success" && edits.every((edit) => allowed.has(edit.join(" "))))
    .map(({ edits }) => edits)
    .sort((a, b) => a.length - b.length);
  return sets[0] ?? null;
}

export function stopIfAborted({ signal }: ExactCallbacks, done: number, examples: readonly Example[]): void {
  if (signal?.aborted)
    throw new Interrupted(
      `Stopped after ${done} of ${examples.length} texts. The proof has every finished block; run the same command ` +
        "again to continue.",
    );
}
