import { z } from "zod";
import type { AttackDefinition } from "./attack.js";
import { type Candidate, fools, goldProbability, openPositions, type Problem, type Score, unchanged, withPick } from "./search.js";

/** One pass over the text from left to right: each word takes the choice that hurts the gold label most, given the words before it. */
export const greedy: AttackDefinition<Record<string, never>> = {
  name: "greedy",
  options: z.strictObject({}),
  limited: false,
  search: () => searchGreedy,
};

function* searchGreedy(problem: Problem): Generator<Candidate[], Candidate, Score[]> {
  let picks = unchanged(problem).picks;
  let lowest = goldProbability(problem.original, problem);
  let changed = 0;
  for (const position of openPositions(problem)) {
    if (changed >= problem.maxChanged) break;
    const trials = problem.choices[position]!.slice(1).map((_, i) => withPick(picks, position, i + 1));
    const scores = yield trials.map((trial) => ({ picks: trial }));
    const fooling = scores.findIndex((score) => fools(score, problem.label));
    if (fooling !== -1) return { picks: trials[fooling]! };
    scores.forEach((score, i) => {
      const gold = goldProbability(score, problem);
      if (gold >= lowest) return;
      lowest = gold;
      if (picks[position] === 0) changed++;
      picks = trials[i]!;
    });
  }
  return { picks };
}
