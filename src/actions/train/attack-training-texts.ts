import { onlyFields } from "../../attacks/constraints/words.js";
import { equipAttack } from "../../attacks/load-attack.js";
import { SearchPool } from "../../attacks/pool.js";
import { UserError } from "../../base/errors.js";
import type { Callbacks } from "../../base/events.js";
import { type RuntimeOptions, resolveRuntime } from "../../settings/runtime-config.js";
import type { FindAdversarialTexts } from "../../train/index.js";
import { recipeResourceOptions } from "../load/load-resources.js";
import { createLocalVictim } from "../load/load-victim.js";
import { openVictim } from "../load/open-victim.js";
import type { PreparedRun } from "./prepare-run.js";

/**
 * Attacks training texts on the model of a run while it trains: any attack, in the search pool, with
 * the substitutions of the run. Everything else that an attack needs, except the masked language
 * model of the request, has its default.
 */
export function createTextAttack(
  { config, runtime, job }: Pick<PreparedRun, "config" | "runtime" | "job">,
  callbacks: Callbacks,
): FindAdversarialTexts {
  const { model, task } = job;
  return async ({ attack, maskedLm, examples, seed, maxQueries, precision, onResult }) => {
    // The head is trained by now, whether the checkpoint had one or not.
    const search: RuntimeOptions = { device: runtime.device, threads: runtime.threads, precision };
    const place = runtime.device === "cpu" ? resolveRuntime(search, { use: "search" }) : runtime;
    const local = await createLocalVictim({ ...model, newlyInitialized: [] }, place);
    await using victim = await openVictim({ model: local, onEvent: callbacks.onEvent });
    const request = {
      ...config,
      maskedLm,
      maskedLmOption: "maskedLm",
      sentenceEncoder: recipeResourceOptions.sentenceEncoder.parse(undefined),
    };
    const { attacks, resources } = await victim.loadAttacks([attack], request, task.labels);
    const pool = new SearchPool(victim.victim, { concurrency: victim.concurrency });
    const ready = equipAttack(attacks[0]!, resources, [onlyFields(task.modifiableFields)]);
    if (ready.recipe.goal.keepsPrediction)
      throw new UserError(
        `attack ${attack}: its texts keep their predictions, so they do not fool the model. Use an attack that ` +
          "changes the class, such as pwws.",
      );
    const found: (readonly string[] | null)[] = [];
    const budget = maxQueries ?? undefined;
    for await (const result of pool.run(examples, ready, { seed, budget, signal: callbacks.signal })) {
      found.push(result.outcome === "success" ? result.finalTexts : null);
      onResult?.(found.length);
    }
    return found;
  };
}
