import { z } from "zod";
import type { AttackDefinition } from "./attack.js";
import { type Candidate, firstThatFools, openPositions, type Problem, type Score, unchanged, withPick } from "./search.js";

const options = z.strictObject({
  budget: z.int().min(1).default(20_000).describe("combinations tried an example; a larger space gives a bound only"),
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
  limited: false,
  search: (settings) => (problem) => searchAll(problem, settings.budget),
  exact: (settings) => (problem) => combinations(problem) <= settings.budget,
};

/** How many texts other than the original the space holds. */
export function combinations(problem: Pick<Problem, "choices" | "maxChanged">): number {
  // counts[k]: texts with exactly k words changed, over the words so far
  const counts = [1];
  for (const slots of problem.choices) {
    if (slots.length === 1) continue;
    const longest = Math.min(counts.length, problem.maxChanged);
    for (let k = longest; k > 0; k--) counts[k] = (counts[k] ?? 0) + counts[k - 1]! * (slots.length - 1);
  }
  return counts.reduce((sum, count) => sum + count, 0) - 1;
}

function* searchAll(problem: Problem, budget: number): Generator<Candidate[], Candidate, Score[]> {
  return (yield* firstThatFools(take(texts(problem), budget), problem, 64)) ?? unchanged(problem);
}

function* texts(problem: Problem): Generator<Candidate> {
  const open = openPositions(problem);
  const most = Math.min(open.length, problem.maxChanged);
  for (let count = 1; count <= most; count++) yield* extend(problem, open, unchanged(problem).picks, 0, count);
}

/** All ways to change exactly `count` more words, from the open word number `from` on. */
function* extend(problem: Problem, open: readonly number[], picks: Int16Array, from: number, count: number): Generator<Candidate> {
  if (count === 0) {
    yield { picks };
    return;
  }
  for (let i = from; i <= open.length - count; i++) {
    const position = open[i]!;
    for (let slot = 1; slot < problem.choices[position]!.length; slot++) {
      yield* extend(problem, open, withPick(picks, position, slot), i + 1, count - 1);
    }
  }
}

function* take<T>(items: Iterable<T>, most: number): Generator<T> {
  let count = 0;
  for (const item of items) {
    if (count++ === most) return;
    yield item;
  }
}
