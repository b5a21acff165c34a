import { z } from "zod";
import {
  type AttackDefinition,
  type CandidateGenerator,
  createUnchangedCandidate,
  getGoldProbability,
  isMisclassified,
  modifiablePositions,
  type SearchProblem,
  withReplacement,
} from "../search.js";

/**
 * One pass over the text from left to right. Each word takes the replacement that lowers the gold
 * label's probability most, given the words before it.
 */
export const greedy: AttackDefinition<Record<string, never>> = {
  name: "greedy",
  options: z.strictObject({}),
  hasBudget: false,
  search: () => searchGreedy,
};

function* searchGreedy(problem: SearchProblem): CandidateGenerator {
  let { replacementIndices } = createUnchangedCandidate(problem);
  let lowest = getGoldProbability(problem.originalScore, problem);
  let changed = 0;
  for (const position of modifiablePositions(problem)) {
    if (changed >= problem.maxChanged) break;
    const substitutes = problem.replacements[position]!.slice(1);
    const trials = substitutes.map((_, i) => withReplacement(replacementIndices, position, i + 1));
    const scores = yield trials.map((trial) => ({ replacementIndices: trial }));
    const fooling = scores.findIndex((score) => isMisclassified(score, problem.label));
    if (fooling !== -1) return { replacementIndices: trials[fooling]! };
    scores.forEach((score, i) => {
      const gold = getGoldProbability(score, problem);
      if (gold >= lowest) return;
      lowest = gold;
      if (replacementIndices[position] === 0) changed++;
      replacementIndices = trials[i]!;
    });
  }
  return { replacementIndices };
}
