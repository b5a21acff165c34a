import type { Goal } from "./goal.js";

/** The same goal for a victim that returns only the class: the value is 0 or 1. */
export function hardLabel(goal: Goal): Goal {
  return {
    ...goal,
    name: `${goal.name}-hard-label`,
    computeValue: (score, label, text) => Number(goal.isReached(score, label, text)),
  };
}
