import type { Rng } from "../../tensor/random.js";
import {
  type EditProblem,
  type EditSearch,
  type ScoredText,
  type SearchGenerator,
  score,
  scoreCandidates,
} from "../recipe.js";
import { copyWords, countCandidates, drawIndex, selectBest } from "./population.js";
import { runTogether } from "./run-together.js";

export interface GeneticOptions {
  readonly population: number;
  readonly iterations: number;
  readonly temperature?: number;
  /** TextAttack selects parents with exp(-value / temperature), which favors the worse ones. */
  readonly invertsSelection?: boolean;
  /** Uniform: each word from either parent. Single point: the words before a point from one. */
  readonly crossover?: "uniform" | "single-point";
  /** The first population: random words are changed, or one word per member. */
  readonly start?: "random" | "each-word";
  /** How often a word may change in the history of a member. */
  readonly maxReplacements?: number;
}

interface Member extends ScoredText {
  /** The weight of each open position in the choice of the next word. */
  readonly weights: readonly number[];
}

/** A genetic algorithm over the words of a text (Alzantot et al. 2018, Wang et al. 2019). */
export function geneticSearch(options: GeneticOptions): EditSearch {
  const { population, iterations, temperature = 0.3, start = "random" } = options;
  const sign = options.invertsSelection ? -1 : 1;
  return {
    name: `genetic, ${population} texts and ${iterations} generations`,
    cost: "about population x candidates of a word, per generation",
    *run(problem, rng) {
      const positions = problem.findOpenPositions(problem.original.text);
      const counts = yield* countCandidates(problem.original.text, positions);
      const limit = options.maxReplacements;
      const weights = limit === undefined ? counts : counts.map((count) => (count > 0 ? limit : 0));
      const founder: Member = { ...problem.original, weights };
      const changeable = weights.flatMap((weight, i) => (weight > 0 ? [i] : []));
      if (changeable.length === 0) return problem.original.text;
      const starts =
        start === "random"
          ? Array.from({ length: population }, () => undefined)
          : Array.from({ length: Math.min(population, changeable.length) }, (_, i) => changeable[i]!);
      let members = yield* runTogether(
        starts.map((first, i) => perturb(founder, positions, rng.fork("start", i), limit, first)),
      );
      for (let iteration = 0; ; iteration++) {
        const best = selectBest(members) as Member;
        if (best.isReached || iteration === iterations) return best.text;
        const highest = best.value;
        const fitness = members.map(({ value }) => Math.exp((sign * (value - highest)) / temperature));
        const children = Array.from({ length: population - 1 }, (_, i) => {
          const own = rng.fork("child", iteration, i);
          const [mother, father] = [members[drawIndex(fitness, own)]!, members[drawIndex(fitness, own)]!];
          return createChild(problem, mother, father, positions, options.crossover ?? "uniform", own, limit);
        });
        members = [best, ...(yield* runTogether(children))];
      }
    },
  };
}

/** Combines two parents, scores the child, and changes one of its words. */
function* createChild(
  problem: EditProblem,
  mother: Member,
  father: Member,
  positions: readonly number[],
  crossover: "uniform" | "single-point",
  rng: Rng,
  limit: number | undefined,
): SearchGenerator<Member> {
  const point = crossover === "single-point" ? rng.integer(positions.length + 1) : 0;
  const fromFather = positions.map((_, i) => (crossover === "uniform" ? rng.next() < 0.5 : i >= point));
  const text = copyWords(
    mother.text,
    father.text,
    positions.filter((_, i) => fromFather[i]),
  );
  const weights = mother.weights.map((weight, i) => (fromFather[i] ? father.weights[i]! : weight));
  // Together, the words of both parents can be more than the constraints allow.
  if (!problem.isAllowed(text)) return yield* perturb(mother, positions, rng, limit);
  const [scored] = yield* score([{ text }]);
  const child = { ...scored!, weights };
  return child.isReached ? child : yield* perturb(child, positions, rng, limit);
}

/**
 * Draws words until one has a candidate that improves the text, and takes its best candidate. A
 * word that does not improve the text, or has changed often enough, is not drawn again.
 */
function* perturb(
  member: Member,
  positions: readonly number[],
  rng: Rng,
  limit: number | undefined,
  first?: number,
): SearchGenerator<Member> {
  const weights = [...member.weights];
  let index = first ?? drawIndex(weights, rng);
  while (index >= 0) {
    const [best] = yield* scoreCandidates(member.text, [positions[index]!]);
    if (best && best.value > member.value) {
      weights[index] = limit === undefined ? 0 : weights[index]! - 1;
      return { ...best, weights };
    }
    weights[index] = 0;
    index = drawIndex(weights, rng);
  }
  return { ...member, weights };
}
