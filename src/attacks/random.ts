import { z } from "zod";
import type { Rng } from "../tensor/random.js";
import type { AttackDefinition } from "./attack.js";
import { type Candidate, firstThatFools, openPositions, type Problem, type Score, unchanged } from "./search.js";

const options = z.strictObject({ samples: z.int().min(1).default(100).describe("random texts tried an example") });

/** Random texts of the attack space, each open word in a random slot: what any real attack must beat. */
export const random: AttackDefinition<z.output<typeof options>> = {
  name: "random",
  options,
  limited: true,
  search: (settings) => (problem, rng) => searchRandom(problem, rng, settings.samples),
};

function* searchRandom(problem: Problem, rng: Rng, count: number): Generator<Candidate[], Candidate, Score[]> {
  const open = openPositions(problem);
  if (open.length === 0 || problem.maxChanged < 1) return unchanged(problem);
  const samples = Array.from({ length: count }, () => {
    const { picks } = unchanged(problem);
    for (const position of rng.shuffle([...open]).slice(0, problem.maxChanged))
      picks[position] = rng.integer(problem.choices[position]!.length);
    return { picks };
  });
  return (yield* firstThatFools(samples, problem, 4)) ?? samples.at(-1)!;
}
