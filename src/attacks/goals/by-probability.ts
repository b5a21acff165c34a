import type { Goal } from "./goal.js";

/**
 * The same goal, but the search compares probabilities, as papers and other tools do. A model whose
 * probabilities are all near 0 and 1 then looks robust.
 */
export function byProbability(goal: Goal, target: number | null): Goal {
  return {
    ...goal,
    name: `${goal.name}-probability`,
    computeValue: ({ probabilities }, label) => (target === null ? 1 - probabilities[label]! : probabilities[target]!),
  };
}
