import type { Rng } from "../../base/rng.js";
import type { EditedText } from "../edited-text.js";
import {
  expand,
  expandWords,
  type Problem,
  type ScoredText,
  type Search,
  type SearchGenerator,
  score,
  scoreCandidates,
} from "../protocol.js";
import { copyWords, drawIndex, selectBest } from "./population.js";
import { runTogether } from "./run-together.js";

export interface GeneticOptions {
  readonly population: number;
  readonly iterations: number;
  /**
   * The change of a text in a generation:
   * - improve: words are drawn until one has a candidate that improves the text (Alzantot's code).
   * - best: one word is drawn and takes the best of its candidates, or stays (RIFT, Jia's code).
   */
  readonly mutation?: "improve" | "best";
  /** Parents are drawn with exp(value / temperature); with mutation "best", by their value. */
  readonly temperature?: number;
  /** Uniform: each word from either parent. Single point: the words before a point from one. */
  readonly crossover?: "uniform" | "single-point";
  /** The first population: random words are changed, or one word per member. */
  readonly start?: "random" | "each-word";
  /** Maximum number of changes of a word in the history of a member. */
  readonly maxReplacements?: number;
}

interface Member extends ScoredText {
  /** The weight of each open position in the choice of the next word. */
  readonly weights: readonly number[];
}

/** Creates the first texts of a search, and the children of some members. */
interface Reproduction {
  start(): SearchGenerator<Member[]>;
  createChildren(members: readonly Member[], best: Member, iteration: number): SearchGenerator<Member[]>;
}

/** A genetic algorithm over the words of a text (Alzantot et al. 2018, Wang et al. 2019). */
export function geneticSearch(options: GeneticOptions): Search {
  const { population, iterations, mutation = "improve" } = options;
  return {
    name: `genetic, ${population} texts and ${iterations} generations`,
    cost: "about population x candidates of a word, per generation",
    *run(problem, rng) {
      const candidates = yield* expandWords(problem);
      if (candidates.size === 0) return problem.original.text;
      const reproduction =
        mutation === "best"
          ? reproduceByBestCandidate(problem, [...candidates.keys()], options, rng)
          : reproduceByImprovement(problem, candidates, options, rng.fork("search"));
      let members = yield* reproduction.start();
      for (let iteration = 0; ; iteration++) {
        const best = selectBest(members) as Member;
        if (best.isReached || iteration === iterations) return best.text;
        members = [best, ...(yield* reproduction.createChildren(members, best, iteration))];
      }
    },
  };
}

/** The smallest weight of a parent. */
const minFitness = 1e-8;

/** One word of each text takes the best of its candidates. The random draws need no scores. */
function reproduceByBestCandidate(
  problem: Problem,
  positions: readonly number[],
  { population }: GeneticOptions,
  rng: Rng,
): Reproduction {
  function* mutate(parents: readonly EditedText[]): SearchGenerator<Member[]> {
    const lists: EditedText[][] = [];
    for (const parent of parents) {
      const allowed = intersect(positions, problem.findOpenPositions(parent));
      // A constraint can close every word of a text, such as those that have changed.
      const chosen = allowed.length === 0 ? [] : [allowed[rng.integer(allowed.length)]!];
      lists.push([parent, ...(yield* expand(parent, chosen))]);
    }
    const scored = yield* score(lists.flat().map((text) => ({ text })));
    let next = 0;
    return lists.map((list) => ({ ...selectBest(list.map(() => scored[next++]!)), weights: [] }));
  }
  return {
    start: () => mutate(Array.from({ length: population }, () => problem.original.text)),
    createChildren(members) {
      const fitness = members.map(({ value }) => value + minFitness);
      const children = Array.from({ length: population - 1 }, () => {
        const [mother, father] = [members[drawIndex(fitness, rng)]!, members[drawIndex(fitness, rng)]!];
        return mixWords(problem, mother.text, father.text, positions, rng);
      });
      return mutate(children);
    },
  };
}

/** The numbers that two ascending lists share. */
function intersect(first: readonly number[], second: readonly number[]): number[] {
  let next = 0;
  return first.filter((value) => {
    while (second[next]! < value) next++;
    return second[next] === value;
  });
}

/** Takes each word from either parent, then restores random words until the text is allowed. */
function mixWords(
  problem: Problem,
  mother: EditedText,
  father: EditedText,
  positions: readonly number[],
  rng: Rng,
): EditedText {
  const different = mother.findDifferences(father, positions);
  let child = copyWords(
    mother,
    father,
    different.filter(() => rng.next() >= 0.5),
  );
  if (problem.isAllowed(child)) return child;
  for (const position of rng.shuffle(positions.filter((each) => child.isChanged(each)))) {
    child = copyWords(child, problem.original.text, [position]);
    if (problem.isAllowed(child)) break;
  }
  return child;
}

/** Words of each text are drawn until one has a candidate that improves the text. */
function reproduceByImprovement(
  problem: Problem,
  candidates: ReadonlyMap<number, readonly EditedText[]>,
  { population, temperature = 0.3, start = "random", crossover = "uniform", maxReplacements: limit }: GeneticOptions,
  rng: Rng,
): Reproduction {
  const positions = problem.findOpenPositions(problem.original.text);
  const counts = positions.map((position) => candidates.get(position)?.length ?? 0);
  const weights = limit === undefined ? counts : counts.map((count) => (count > 0 ? limit : 0));
  const founder: Member = { ...problem.original, weights };
  return {
    start() {
      const changeable = weights.flatMap((weight, i) => (weight > 0 ? [i] : []));
      const starts =
        start === "random"
          ? Array.from({ length: population }, () => undefined)
          : Array.from({ length: Math.min(population, changeable.length) }, (_, i) => changeable[i]!);
      return runTogether(starts.map((first, i) => perturb(founder, positions, rng.fork("start", i), limit, first)));
    },
    createChildren(members, best, iteration) {
      const fitness = members.map(({ value }) => Math.exp((value - best.value) / temperature));
      const children = Array.from({ length: population - 1 }, (_, i) => {
        const own = rng.fork("child", iteration, i);
        const [mother, father] = [members[drawIndex(fitness, own)]!, members[drawIndex(fitness, own)]!];
        return createChild(problem, mother, father, positions, crossover, own, limit);
      });
      return runTogether(children);
    },
  };
}

/** Combines two parents, scores the child, and changes one of its words. */
function* createChild(
  problem: Problem,
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
