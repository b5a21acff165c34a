import { z } from "zod";
import type { Rng } from "../../tensor/random.js";
import {
  type AttackDefinition,
  type CandidateGenerator,
  countChangedWords,
  createUnchangedCandidate,
  getGoldProbability,
  isMisclassified,
  modifiablePositions,
  type Score,
  type SearchProblem,
  withReplacement,
} from "../search.js";

const options = z.strictObject({
  population: z.int().min(2).default(60).describe("texts per generation"),
  iterations: z.int().min(0).default(40).describe("generations after the first"),
});
type Options = z.output<typeof options>;

/**
 * The genetic attack (Alzantot et al. 2018), as evaluated in RIFT. Unlike the released code, it
 * also checks the last generation.
 */
export const genetic: AttackDefinition<Options> = {
  name: "genetic",
  options,
  hasBudget: true,
  usesLanguageModel: true,
  search: (settings) => (problem, rng) => evolve(problem, rng, settings),
};

interface Member {
  readonly replacementIndices: Int16Array;
  readonly score: Score;
}

function* evolve(problem: SearchProblem, rng: Rng, settings: Options): CandidateGenerator {
  const positions = modifiablePositions(problem);
  const { replacementIndices: unchanged } = createUnchangedCandidate(problem);
  if (positions.length === 0 || problem.maxChanged < 1) return { replacementIndices: unchanged };
  const parents = Array.from({ length: settings.population }, () => unchanged);
  let members = yield* mutate(parents, positions, problem, rng);
  for (let iteration = 0; ; iteration++) {
    const best = selectFittest(members, problem);
    if (isMisclassified(best.score, problem.label) || iteration === settings.iterations)
      return { replacementIndices: best.replacementIndices };
    const sampleIndex = createRouletteSampler(members.map((member) => computeFitness(member.score, problem)));
    const children = Array.from({ length: settings.population - 1 }, () => {
      const [mother, father] = [members[sampleIndex(rng)]!, members[sampleIndex(rng)]!];
      return crossover(mother.replacementIndices, father.replacementIndices, problem.maxChanged, rng);
    });
    members = [best, ...(yield* mutate(children, positions, problem, rng))];
  }
}

function selectFittest(members: readonly Member[], problem: SearchProblem): Member {
  return members.reduce((a, b) => (computeFitness(b.score, problem) > computeFitness(a.score, problem) ? b : a));
}

/**
 * The weight of a member in parent selection. It grows as the gold label's margin shrinks.
 * With two classes it is 1 - p(y). With more it is the sigmoid of the negative logit margin,
 * which is the log ratio of the probabilities.
 */
function computeFitness(score: Score, problem: SearchProblem): number {
  const gold = getGoldProbability(score, problem);
  if (problem.numLabels === 2) return 1 - gold + 1e-8;
  const other = Math.max(...Array.from(score.probabilities).filter((_, i) => i !== problem.label));
  // This is sigmoid(-log(gold / other)) without the logarithm of zero.
  return other / (gold + other) + 1e-4;
}

/**
 * Changes one random word of each parent to the best of ALL its replacements. The random draws
 * need no scores, so a generation is one batch.
 */
function* mutate(
  parents: readonly Int16Array[],
  positions: readonly number[],
  problem: SearchProblem,
  rng: Rng,
): CandidateGenerator<Member[]> {
  const trials = parents.map((parent) => {
    const isFull = countChangedWords(parent) >= problem.maxChanged;
    const allowed = isFull ? positions.filter((position) => parent[position] !== 0) : positions;
    const position = allowed[rng.integer(allowed.length)]!;
    return problem.replacements[position]!.map((_, index) => withReplacement(parent, position, index));
  });
  const scores = yield trials.flat().map((replacementIndices) => ({ replacementIndices }));
  let next = 0;
  return trials.map((trial) => {
    const members = trial.map((replacementIndices) => ({ replacementIndices, score: scores[next++]! }));
    return selectFittest(members, problem);
  });
}

/**
 * Takes each word from either parent with equal probability, then reverts random words above the
 * limit.
 */
function crossover(mother: Int16Array, father: Int16Array, maxChanged: number, rng: Rng): Int16Array {
  const child = mother.map((index, i) => (index === father[i] || rng.next() < 0.5 ? index : father[i]!));
  const excess = countChangedWords(child) - maxChanged;
  if (excess > 0) {
    const changed = [...child.keys()].filter((i) => child[i] !== 0);
    for (const i of rng.shuffle(changed).slice(0, excess)) child[i] = 0;
  }
  return child;
}

/** Returns a function that samples an index with probability proportional to its weight. */
function createRouletteSampler(weights: readonly number[]): (rng: Rng) => number {
  const sums: number[] = [];
  let total = 0;
  for (const weight of weights) {
    total += weight;
    sums.push(total);
  }
  return (rng) => {
    const point = rng.next() * total;
    const found = sums.findIndex((sum) => point < sum);
    return found === -1 ? weights.length - 1 : found;
  };
}
