import type { Rng } from "../../base/rng.js";
import type { EditedText } from "../edited-text.js";
import {
  expandWords,
  type Problem,
  type ScoredText,
  type Search,
  type SearchGenerator,
  type SearchRequest,
  score,
} from "../protocol.js";
import type { GradientSource } from "../resources.js";
import { beamSearch } from "./beam.js";
import { exhaustiveSearch, hasAtMost } from "./exhaustive.js";
import { geneticSearch } from "./genetic.js";
import { climb } from "./local-search.js";
import { drawIndex } from "./population.js";
import { requestNorms } from "./word-importance-ranking.js";

/** Exact results on validation texts: other shares are not better, and nothing is missed (docs/reports/exact.md). */
const defaultSettings = {
  /** Queries per text, of all searches together. */
  maxQueries: 10_000,
  /** Parts of the queries that are left: what the beam and the restarts may use. The rest is genetic. */
  beamPart: 0.3,
  restartPart: 0.6,
};
const beamWidth = 8;
const genetic = geneticSearch({ population: 60, iterations: 1000, mutation: "best" });

/**
 * Several searches, one after the other, until one reaches the goal or the queries are spent. The
 * steepest ascent with exchanges of two words comes first. If the queries suffice for all texts,
 * all are tried. Otherwise a beam, ascents from random texts and a genetic algorithm follow.
 * `gradient` tells which words the random texts change.
 */
export function portfolioSearch(
  gradient: GradientSource | null,
  { maxQueries, beamPart, restartPart } = defaultSettings,
): Search {
  return {
    name: `a portfolio: local search with restarts, beam, genetic${gradient ? ", guided by gradients" : ""}`,
    cost: `up to ${maxQueries}`,
    *run(problem, rng) {
      const counter = new QueryCounter(problem, maxQueries);
      const first = yield* counter.run(climb(problem, problem.original, true), counter.left);
      if (counter.reached || first === null) return counter.best.text;
      const candidates = yield* expandWords(problem);
      if (hasAtMost(problem, [...candidates.values()], counter.left)) {
        yield* counter.run(exhaustiveSearch(counter.left).run(problem, rng), counter.left);
        return counter.best.text;
      }
      yield* counter.run(beamSearch(beamWidth, { returns: true }).run(problem, rng), beamPart * counter.left);
      if (counter.reached) return counter.best.text;
      yield* counter.run(
        restart(problem, candidates, first, gradient, rng.fork("restarts")),
        restartPart * counter.left,
      );
      if (counter.reached) return counter.best.text;
      yield* counter.run(genetic.run(problem, rng.fork("genetic")), counter.left);
      return counter.best.text;
    },
  };
}

/** Runs searches within a number of queries, and keeps the best text that any of them has seen. */
class QueryCounter {
  best: ScoredText;
  reached = false;

  constructor(
    readonly problem: Problem,
    public left: number,
  ) {
    this.best = problem.original;
  }

  /** Returns the result of a search; null if it was stopped, by a success or by the limit. */
  *run<Result>(search: SearchGenerator<Result>, limit: number): SearchGenerator<Result | null> {
    let allowed = Math.floor(Math.min(limit, this.left));
    let step = search.next([]);
    while (!step.done) {
      const asked: SearchRequest = step.value;
      if (!("kind" in asked) || asked.kind !== "score") {
        step = search.next((yield asked) as readonly unknown[]);
        continue;
      }
      const candidates = asked.candidates.slice(0, allowed);
      const scored = yield* score(candidates);
      allowed -= candidates.length;
      this.left -= candidates.length;
      for (const [i, each] of scored.entries()) if (!candidates[i]!.hidden) this.#compare(each);
      if ((this.reached && !this.problem.isMaximized) || candidates.length < asked.candidates.length) return null;
      step = search.next(scored);
    }
    return step.value;
  }

  /** Of texts that reach the goal, the one with the fewest changes is best. */
  #compare(next: ScoredText): void {
    const { best } = this;
    const isBetter =
      next.isReached && best.isReached ? next.text.numChanged < best.text.numChanged : next.value > best.value;
    if (next.isReached === best.isReached ? isBetter : next.isReached) this.best = next;
    this.reached ||= next.isReached;
  }
}

/** Ascents from texts with random changes, until they are stopped. */
function* restart(
  problem: Problem,
  candidates: ReadonlyMap<number, readonly EditedText[]>,
  optimum: ScoredText,
  gradient: GradientSource | null,
  rng: Rng,
): SearchGenerator<void> {
  const positions = [...candidates.keys()];
  const count = Math.max(1, optimum.text.numChanged);
  if (positions.length <= count) return;
  const norms = gradient ? yield* measureNorms(problem, optimum.text, positions, gradient) : positions.map(() => 1);
  for (;;) {
    let { text } = problem.original;
    const weights = [...norms];
    for (let changed = 0; changed < count; changed++) {
      const index = drawIndex(weights, rng);
      if (index < 0) break;
      weights[index] = 0;
      const words = candidates.get(positions[index]!)!;
      const next = text.apply(words[rng.integer(words.length)]!.edit!);
      if (problem.isAllowed(next)) text = next;
    }
    const [start] = yield* score([{ text }]);
    yield* climb(problem, start!, true);
  }
}

/** The gradient norms of the words at a local optimum. A word without a token has the smallest one. */
function* measureNorms(
  problem: Problem,
  text: EditedText,
  positions: readonly number[],
  source: GradientSource,
): SearchGenerator<number[]> {
  const norms = (yield* requestNorms(problem, text, positions, source)).map((own) => Math.max(0, ...own));
  const smallest = Math.min(...norms.filter((norm) => norm > 0), 1);
  return norms.map((norm) => Math.max(norm, smallest));
}
