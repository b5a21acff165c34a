import { logitMargin } from "../../models/inference/score.js";
import type { Goal } from "./goal.js";
import { computeDoubt } from "./score.js";

/** One class: the larger its logit margin, the better. Examples of that class are not attacked. */
export function targeted(target: number): Goal {
  return {
    name: `targeted-${target}`,
    computeValue: (score, _label, _text, original) => 1 - computeDoubt(score, target, original),
    isReached: (score) => logitMargin(score, target) > 0,
    attacksLabel: (label) => label !== target,
  };
}
