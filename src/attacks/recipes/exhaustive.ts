import { z } from "zod";
import {
  type AttackDefinition,
  type Candidate,
  type CandidateGenerator,
  createUnchangedCandidate,
  firstMisclassified,
  modifiablePositions,
  type SearchProblem,
  withReplacement,
} from "../search.js";

const options = z.strictObject({
  maxCandidates: z
    .int()
    .min(1)
    .default(20_000)
    .describe("combinations to try per example; for a larger space, accuracy is an upper bound"),
});

/**
 * Tries every combination, those with the fewest changes first. If the space has at most
 * `maxCandidates` texts, the result is exact. Otherwise a failure proves nothing, and accuracy
 * under attack is an upper bound.
 */
export const exhaustive: AttackDefinition<z.output<typeof options>> = {
  name: "exhaustive",
  options,
  // `exact` reports for each example whether maxCandidates was large enough.
  hasBudget: false,
  search: (settings) => (problem) => searchExhaustively(problem, settings.maxCandidates),
  exact: (settings) => (problem) => countCombinations(problem) <= settings.maxCandidates,
};

/** Returns the number of texts in the space, without the original. */
export function countCombinations(problem: Pick<SearchProblem, "replacements" | "maxChanged">): number {
  // counts[k] is the number of texts with exactly k changed words, over the words so far.
  const counts = [1];
  for (const words of problem.replacements) {
    if (words.length === 1) continue;
    const maxCount = Math.min(counts.length, problem.maxChanged);
    for (let k = maxCount; k > 0; k--) counts[k] = (counts[k] ?? 0) + counts[k - 1]! * (words.length - 1);
  }
  return counts.reduce((sum, count) => sum + count, 0) - 1;
}

function* searchExhaustively(problem: SearchProblem, maxCandidates: number): CandidateGenerator {
  const candidates = take(enumerateCandidates(problem), maxCandidates);
  return (yield* firstMisclassified(candidates, problem, 64)) ?? createUnchangedCandidate(problem);
}

function* enumerateCandidates(problem: SearchProblem): Generator<Candidate> {
  const positions = modifiablePositions(problem);
  const { replacementIndices } = createUnchangedCandidate(problem);
  const maxCount = Math.min(positions.length, problem.maxChanged);
  for (let count = 1; count <= maxCount; count++)
    yield* enumerateChanges(problem, positions, replacementIndices, 0, count);
}

/** Yields all ways to change exactly `count` more words, starting at positions[from]. */
function* enumerateChanges(
  problem: SearchProblem,
  positions: readonly number[],
  replacementIndices: Int16Array,
  from: number,
  count: number,
): Generator<Candidate> {
  if (count === 0) {
    yield { replacementIndices };
    return;
  }
  for (let i = from; i <= positions.length - count; i++) {
    const position = positions[i]!;
    for (let index = 1; index < problem.replacements[position]!.length; index++) {
      const changed = withReplacement(replacementIndices, position, index);
      yield* enumerateChanges(problem, positions, changed, i + 1, count - 1);
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
