import { onlyFields } from "../../attacks/constraints/modifiable-fields.js";
import { createAttacker, listResources, loadAttack } from "../../attacks/load-attack.js";
import { SearchPool } from "../../attacks/pool.js";
import type { AttackResources } from "../../attacks/resources.js";
import { UserError } from "../../base/errors.js";
import type { Callbacks } from "../../base/events.js";
import { type RuntimeOptions, resolveRuntime } from "../../settings/runtime-config.js";
import { type AttackTexts, Interrupted } from "../../train/index.js";
import { loadAttackResources, recipeResourceOptions } from "../load/load-resources.js";
import { createLocalVictim } from "../load/load-victim.js";
import type { PreparedRun } from "./prepare-run.js";

/**
 * Attacks training texts on the model of a run while it trains: any attack, in the search pool, with
 * the substitutions of the run. Everything else that an attack needs, except the masked language
 * model of the request, has its default.
 */
export function createTextAttack(
  { config, runtime, job }: Pick<PreparedRun, "config" | "runtime" | "job">,
  callbacks: Callbacks,
): AttackTexts {
  const { model, task } = job;
  return async ({ attack, maskedLm, examples, seed, maxQueries, precision, onResult }) => {
    const loaded = await loadAttack(attack);
    // The head is trained by now, whether the checkpoint had one or not.
    const search: RuntimeOptions = { device: runtime.device, threads: runtime.threads, precision };
    const place = runtime.device === "cpu" ? resolveRuntime(search, { use: "search" }) : runtime;
    const victim = await createLocalVictim({ ...model, newlyInitialized: [] }, place);
    try {
      const request = {
        vectors: null,
        maskedLm,
        maskedLmOption: "maskedLm",
        sentenceEncoder: recipeResourceOptions.sentenceEncoder.parse(undefined),
        substitutions: config.substitutions,
        inVocabSubstitutes: config.inVocabSubstitutes,
        caseSensitiveSubstitutes: config.caseSensitiveSubstitutes,
      };
      const resources = await loadAttackResources(listResources(loaded), request, victim, task.labels, callbacks);
      try {
        const pool = new SearchPool(victim.victim, { concurrency: victim.concurrency });
        const attacker = createAttacker(loaded, resources.resources, [onlyFields(task.modifiableFields)], pool);
        const { goal } = loaded.definition.build(loaded.options, resources.resources as AttackResources);
        if (goal.keepsPrediction)
          throw new UserError(
            `attack ${attack}: its texts keep their predictions, so they do not fool the model. Use an attack that ` +
              "changes the class, such as pwws.",
          );
        const found: (readonly string[] | null)[] = [];
        const budget = maxQueries ?? undefined;
        for await (const result of attacker.run(examples, { seed, budget, signal: callbacks.signal })) {
          found.push(result.outcome === "success" ? result.finalTexts : null);
          onResult?.(found.length);
        }
        return found;
      } catch (error) {
        if (callbacks.signal?.aborted) throw new Interrupted("Stopped during an attack.");
        throw error;
      } finally {
        resources.close();
      }
    } finally {
      victim.close();
    }
  };
}
