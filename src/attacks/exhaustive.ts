import { z } from "zod";
import type { AttackDefinition } from "./attack-definition.js";
import {
  type Candidate,
  createUnchangedCandidate,
  firstMisclassified,
  modifiablePositions,
  type Score,
  type SearchProblem,
  withReplacement,
} from "./search.js";

const options = z.strictObject({
  maxCandidates: z
    .int()
    .min(1)
    .default(20_000)
    .describe("combinations tried an example; a larger space gives a bound only"),
});
type Options = z.output<typeof options>;

/**
 * Every combination, those with the fewest changes first. Where the space is at most the budget the verdict is exact; elsewhere
 * a failure proves nothing, and accuracy under attack is an upper bound.
 */
export const exhaustive: AttackDefinition<Options> = {
  name: "exhaustive",
  options,
  // Where the budget did not suffice, `exact` says so example by example.
  hasBudget: false,
  search: (settings) => (problem) => searchExhaustively(problem, settings.maxCandidates),
  exact: (settings) => (problem) => countCombinations(problem) <= settings.maxCandidates,
};

/** How many texts other than the original the space holds. */
export function countCombinations(problem: Pick<SearchProblem, "replacements" | "maxChanged">): number {
  // counts[k]: texts with exactly k words changed, over the words so far
  const counts = [1];
  for (const slots of problem.replacements) {
    if (slots.length === 1) continue;
    const maxCount = Math.min(counts.length, problem.maxChanged);
    for (let k = maxCount; k > 0; k--) counts[k] = (counts[k] ?? 0) + counts[k - 1]! * (slots.length - 1);
  }
  return counts.reduce((sum, count) => sum + count, 0) - 1;
}

function* searchExhaustively(problem: SearchProblem, budget: number): Generator<Candidate[], Candidate, Score[]> {
  return (
    (yield* firstMisclassified(take(enumerateCandidates(problem), budget), problem, 64)) ??
    createUnchangedCandidate(problem)
  );
}

function* enumerateCandidates(problem: SearchProblem): Generator<Candidate> {
  const open = modifiablePositions(problem);
  const maxCount = Math.min(open.length, problem.maxChanged);
  for (let count = 1; count <= maxCount; count++)
    yield* enumerateChanges(problem, open, createUnchangedCandidate(problem).replacementIndices, 0, count);
}

/** All ways to change exactly `count` more words, from the open word number `from` on. */
function* enumerateChanges(
  problem: SearchProblem,
  open: readonly number[],
  picks: Int16Array,
  from: number,
  count: number,
): Generator<Candidate> {
  if (count === 0) {
    yield { replacementIndices: picks };
    return;
  }
  for (let i = from; i <= open.length - count; i++) {
    const position = open[i]!;
    for (let slot = 1; slot < problem.replacements[position]!.length; slot++) {
      yield* enumerateChanges(problem, open, withReplacement(picks, position, slot), i + 1, count - 1);
    }
  }
}

function* take<T>(items: Iterable<T>, maxCount: number): Generator<T> {
  let count = 0;
  for (const item of items) {
    if (count++ === maxCount) return;
    yield item;
  }
}
