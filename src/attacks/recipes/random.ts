import { z } from "zod";
import type { Rng } from "../../tensor/random.js";
import {
  type AttackDefinition,
  type CandidateGenerator,
  createUnchangedCandidate,
  firstMisclassified,
  modifiablePositions,
  type SearchProblem,
} from "../search.js";

const options = z.strictObject({ samples: z.int().min(1).default(100).describe("random texts to try per example") });

/** Random texts from the attack space: the baseline that every other attack must beat. */
export const random: AttackDefinition<z.output<typeof options>> = {
  name: "random",
  options,
  hasBudget: true,
  search: (settings) => (problem, rng) => searchRandomly(problem, rng, settings.samples),
};

function* searchRandomly(problem: SearchProblem, rng: Rng, count: number): CandidateGenerator {
  const positions = modifiablePositions(problem);
  if (positions.length === 0 || problem.maxChanged < 1) return createUnchangedCandidate(problem);
  const samples = Array.from({ length: count }, () => {
    const { replacementIndices } = createUnchangedCandidate(problem);
    for (const position of rng.shuffle([...positions]).slice(0, problem.maxChanged))
      replacementIndices[position] = rng.integer(problem.replacements[position]!.length);
    return { replacementIndices };
  });
  return (yield* firstMisclassified(samples, problem, 4)) ?? samples.at(-1)!;
}
