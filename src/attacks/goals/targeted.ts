import type { Goal } from "./goal.js";
import { margin } from "./score.js";

/** One class: p(target). Examples of that class are not attacked. */
export function targeted(target: number): Goal {
  return {
    name: `targeted-${target}`,
    computeValue: ({ probabilities }) => probabilities[target]!,
    isReached: (score) => margin(score, target) > 0,
    attacksLabel: (label) => label !== target,
  };
}
