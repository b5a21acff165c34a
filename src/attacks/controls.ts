import type { ReadyAttack } from "./define-attack.js";
import { computeMaxQueries, type QueryBudget } from "./protocol.js";
import type { GradientSource } from "./resources.js";
import { randomChangesSearch } from "./searches/random-changes.js";

/** An attack that another one must beat, on the same texts. */
export interface ControlAttack {
  readonly attack: ReadyAttack;
  readonly budget: QueryBudget;
}

/** The same attack with a tenth of its budget. */
export function reduceBudget(attack: ReadyAttack, budget: QueryBudget): ControlAttack {
  const reduce = (count: number): number => Math.max(1, Math.floor(count / 10));
  return { attack, budget: typeof budget === "number" ? reduce(budget) : { perWord: reduce(budget.perWord) } };
}

/** Random changes of the same kinds, with the same budget. Null if the attack has no single changes. */
export function changeRandomly(attack: ReadyAttack, budget: QueryBudget, longest: number): ControlAttack | null {
  const { recipe } = attack;
  if ("runAll" in recipe.search || recipe.transformations.length === 0) return null;
  const kinds = [...new Set(recipe.transformations.map(({ kind }) => kind))];
  const search = randomChangesSearch(kinds, computeMaxQueries(budget, longest));
  return { attack: { ...attack, recipe: { ...recipe, search } }, budget };
}

/** The same changes, guided by gradients. Null if the attack has no such search. */
export function followGradients(
  attack: ReadyAttack,
  budget: QueryBudget,
  gradient: GradientSource | undefined,
): ControlAttack | null {
  const { createWhiteBoxSearch } = attack.recipe;
  if (!createWhiteBoxSearch || !gradient) return null;
  const recipe = { ...attack.recipe, search: createWhiteBoxSearch(gradient) };
  return { attack: { ...attack, isWhiteBox: true, recipe }, budget };
}
