import { z } from "zod";
import type { Rng } from "../tensor/random.js";
import type { AttackDefinition } from "./attack-definition.js";
import {
  type Candidate,
  createUnchangedCandidate,
  firstMisclassified,
  modifiablePositions,
  type Score,
  type SearchProblem,
} from "./search.js";

const options = z.strictObject({ samples: z.int().min(1).default(100).describe("random texts tried an example") });

/** Random texts of the attack space, each open word in a random slot: what any real attack must beat. */
export const random: AttackDefinition<z.output<typeof options>> = {
  name: "random",
  options,
  hasBudget: true,
  search: (settings) => (problem, rng) => searchRandom(problem, rng, settings.samples),
};

function* searchRandom(problem: SearchProblem, rng: Rng, count: number): Generator<Candidate[], Candidate, Score[]> {
  const open = modifiablePositions(problem);
  if (open.length === 0 || problem.maxChanged < 1) return createUnchangedCandidate(problem);
  const samples = Array.from({ length: count }, () => {
    const { replacementIndices: picks } = createUnchangedCandidate(problem);
    for (const position of rng.shuffle([...open]).slice(0, problem.maxChanged))
      picks[position] = rng.integer(problem.replacements[position]!.length);
    return { replacementIndices: picks };
  });
  return (yield* firstMisclassified(samples, problem, 4)) ?? samples.at(-1)!;
}
