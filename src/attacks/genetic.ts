import { z } from "zod";
import type { Rng } from "../tensor/random.js";
import type { AttackDefinition } from "./attack.js";
import {
  type Candidate,
  changedCount,
  fools,
  goldProbability,
  openPositions,
  type Problem,
  type Score,
  unchanged,
  withPick,
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
  limited: true,
  languageModel: true,
  search: (settings) => (problem, rng) => evolve(problem, rng, settings),
};

interface Member {
  readonly picks: Int16Array;
  readonly score: Score;
}

function* evolve(problem: Problem, rng: Rng, settings: Options): Generator<Candidate[], Candidate, Score[]> {
  const open = openPositions(problem);
  const start = unchanged(problem).picks;
  if (open.length === 0 || problem.maxChanged < 1) return { picks: start };
  const mutated = (parents: readonly Int16Array[]) => mutate(parents, open, problem, rng);
  let members = yield* mutated(Array.from({ length: settings.population }, () => start));
  for (let iteration = 0; ; iteration++) {
    const best = members.reduce((a, b) => (fitness(b.score, problem) > fitness(a.score, problem) ? b : a));
    if (fools(best.score, problem.label) || iteration === settings.iterations) return { picks: best.picks };
    const draw = roulette(members.map((member) => fitness(member.score, problem)));
    const children = Array.from({ length: settings.population - 1 }, () => {
      const [mother, father] = [members[draw(rng)]!, members[draw(rng)]!];
      return cross(mother.picks, father.picks, problem.maxChanged, rng);
    });
    members = [best, ...(yield* mutated(children))];
  }
}

/**
 * How likely a member is to be a parent; it rises as the gold label's lead falls. Two classes: 1 - p(y). More: the sigmoid of the
 * negative margin of logits, which is the log ratio of the probabilities.
 */
function fitness(score: Score, problem: Problem): number {
  const gold = goldProbability(score, problem);
  if (problem.classes === 2) return 1 - gold + 1e-8;
  const other = Math.max(...Array.from(score.probabilities).filter((_, i) => i !== problem.label));
  // sigmoid(-log(gold / other)), without the logarithm of a zero
  return other / (gold + other) + 1e-4;
}

/** Every parent changes one random word to the best of ALL its choices. The draws need no scores, so a generation is one batch. */
function* mutate(
  parents: readonly Int16Array[],
  open: readonly number[],
  problem: Problem,
  rng: Rng,
): Generator<Candidate[], Member[], Score[]> {
  const trials = parents.map((picks) => {
    const full = changedCount(picks) >= problem.maxChanged;
    const positions = full ? open.filter((position) => picks[position] !== 0) : open;
    const position = positions[rng.integer(positions.length)]!;
    return problem.choices[position]!.map((_, slot) => withPick(picks, position, slot));
  });
  const scores = yield trials.flat().map((picks) => ({ picks }));
  let at = 0;
  return trials.map((trial) => {
    const members = trial.map((picks) => ({ picks, score: scores[at++]! }));
    return members.reduce((a, b) => (fitness(b.score, problem) > fitness(a.score, problem) ? b : a));
  });
}

/** Each word from either parent with equal chance; words over the limit return to the original at random. */
function cross(mother: Int16Array, father: Int16Array, maxChanged: number, rng: Rng): Int16Array {
  const child = mother.map((slot, i) => (slot === father[i] || rng.next() < 0.5 ? slot : father[i]!));
  const excess = changedCount(child) - maxChanged;
  if (excess > 0) {
    const changed = [...child.keys()].filter((i) => child[i] !== 0);
    for (const i of rng.shuffle(changed).slice(0, excess)) child[i] = 0;
  }
  return child;
}

/** Draws an index in proportion to its weight. */
function roulette(weights: readonly number[]): (rng: Rng) => number {
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
