import { z } from "zod";
import type { Rng } from "../tensor/random.js";
import type { AttackDefinition } from "./attack-definition.js";
import {
  type Candidate,
  countChangedWords,
  createUnchangedCandidate,
  getGoldProbability,
  isMisclassified,
  modifiablePositions,
  type Score,
  type SearchProblem,
  withReplacement,
} from "./search.js";

const options = z.strictObject({
  population: z.int().min(2).default(60).describe("texts in a generation"),
  iterations: z.int().min(0).default(40).describe("generations after the first"),
});
type Options = z.output<typeof options>;

/** The genetic attack (Alzantot et al. 2018) as RIFT evaluates it; unlike the released code it checks its last generation too. */
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

function* evolve(problem: SearchProblem, rng: Rng, settings: Options): Generator<Candidate[], Candidate, Score[]> {
  const open = modifiablePositions(problem);
  const start = createUnchangedCandidate(problem).replacementIndices;
  if (open.length === 0 || problem.maxChanged < 1) return { replacementIndices: start };
  const mutated = (parents: readonly Int16Array[]) => mutate(parents, open, problem, rng);
  let members = yield* mutated(Array.from({ length: settings.population }, () => start));
  for (let iteration = 0; ; iteration++) {
    const best = members.reduce((a, b) =>
      computeFitness(b.score, problem) > computeFitness(a.score, problem) ? b : a,
    );
    if (isMisclassified(best.score, problem.label) || iteration === settings.iterations)
      return { replacementIndices: best.replacementIndices };
    const sampleIndex = createRouletteSampler(members.map((member) => computeFitness(member.score, problem)));
    const children = Array.from({ length: settings.population - 1 }, () => {
      const [mother, father] = [members[sampleIndex(rng)]!, members[sampleIndex(rng)]!];
      return crossover(mother.replacementIndices, father.replacementIndices, problem.maxChanged, rng);
    });
    members = [best, ...(yield* mutated(children))];
  }
}

/**
 * How likely a member is to be a parent; it rises as the gold label's lead falls. Two classes: 1 - p(y). More: the sigmoid of the
 * negative margin of logits, which is the log ratio of the probabilities.
 */
function computeFitness(score: Score, problem: SearchProblem): number {
  const gold = getGoldProbability(score, problem);
  if (problem.numLabels === 2) return 1 - gold + 1e-8;
  const other = Math.max(...Array.from(score.probabilities).filter((_, i) => i !== problem.label));
  // sigmoid(-log(gold / other)), without the logarithm of a zero
  return other / (gold + other) + 1e-4;
}

/** Every parent changes one random word to the best of ALL its choices. The draws need no scores, so a generation is one batch. */
function* mutate(
  parents: readonly Int16Array[],
  open: readonly number[],
  problem: SearchProblem,
  rng: Rng,
): Generator<Candidate[], Member[], Score[]> {
  const trials = parents.map((picks) => {
    const full = countChangedWords(picks) >= problem.maxChanged;
    const positions = full ? open.filter((position) => picks[position] !== 0) : open;
    const position = positions[rng.integer(positions.length)]!;
    return problem.replacements[position]!.map((_, slot) => withReplacement(picks, position, slot));
  });
  const scores = yield trials.flat().map((picks) => ({ replacementIndices: picks }));
  let at = 0;
  return trials.map((trial) => {
    const members = trial.map((picks) => ({ replacementIndices: picks, score: scores[at++]! }));
    return members.reduce((a, b) => (computeFitness(b.score, problem) > computeFitness(a.score, problem) ? b : a));
  });
}

/** Each word from either parent with equal chance; words over the limit return to the original at random. */
function crossover(mother: Int16Array, father: Int16Array, maxChanged: number, rng: Rng): Int16Array {
  const child = mother.map((slot, i) => (slot === father[i] || rng.next() < 0.5 ? slot : father[i]!));
  const excess = countChangedWords(child) - maxChanged;
  if (excess > 0) {
    const changed = [...child.keys()].filter((i) => child[i] !== 0);
    for (const i of rng.shuffle(changed).slice(0, excess)) child[i] = 0;
  }
  return child;
}

/** Draws an index in proportion to its weight. */
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
