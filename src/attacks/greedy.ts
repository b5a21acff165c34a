import { z } from "zod";
import type { AttackDefinition } from "./attack-definition.js";
import {
  type Candidate,
  createUnchangedCandidate,
  getGoldProbability,
  isMisclassified,
  modifiablePositions,
  type Score,
  type SearchProblem,
  withReplacement,
} from "./search.js";

/** One pass over the text from left to right: each word takes the choice that hurts the gold label most, given the words before it. */
export const greedy: AttackDefinition<Record<string, never>> = {
  name: "greedy",
  options: z.strictObject({}),
  hasBudget: false,
  search: () => searchGreedy,
};

function* searchGreedy(problem: SearchProblem): Generator<Candidate[], Candidate, Score[]> {
  let picks = createUnchangedCandidate(problem).replacementIndices;
  let lowest = getGoldProbability(problem.originalScore, problem);
  let changed = 0;
  for (const position of modifiablePositions(problem)) {
    if (changed >= problem.maxChanged) break;
    const trials = problem.replacements[position]!.slice(1).map((_, i) => withReplacement(picks, position, i + 1));
    const scores = yield trials.map((trial) => ({ replacementIndices: trial }));
    const fooling = scores.findIndex((score) => isMisclassified(score, problem.label));
    if (fooling !== -1) return { replacementIndices: trials[fooling]! };
    scores.forEach((score, i) => {
      const gold = getGoldProbability(score, problem);
      if (gold >= lowest) return;
      lowest = gold;
      if (picks[position] === 0) changed++;
      picks = trials[i]!;
    });
  }
  return { replacementIndices: picks };
}
