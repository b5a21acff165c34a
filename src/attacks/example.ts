import { UserError } from "../errors.js";
import type { Rng } from "../tensor/random.js";
import type { Attack } from "./attack.js";
import { type AttackResult, resultOf } from "./result.js";
import { type Candidate, changedCount, fools, lead, type Problem, type Score, unchanged } from "./search.js";
import type { Target } from "./target.js";

/** Below this lead, the order of a batch's sums may decide who wins. */
export const nearTieMargin = 1e-4;

/**
 * The whole course of one example: the original text, the search under a query budget, the final text. Itself a generator of
 * candidates, so that it knows nothing of pools and batches.
 */
export function* attackExample(
  target: Target,
  attack: Attack,
  rng: Rng,
  classes: number,
  budget = Number.POSITIVE_INFINITY,
): Generator<Candidate[], AttackResult, Score[]> {
  const { label } = target;
  const original = unchanged(target);
  const [before] = (yield [original]) as [Score];
  const tally = new Tally(label);
  tally.add([original], [before]);
  if (fools(before, label)) return resultOf(target, { ...tally.counts, outcome: "skipped", picks: original.picks, before, after: before });

  const problem: Problem = {
    id: target.id,
    words: target.words,
    choices: target.choices,
    label,
    classes,
    original: before,
    maxChanged: target.maxChanged,
  };
  const search = attack.search(problem, rng);
  let step = search.next();
  let exhausted = false;
  while (!step.done && !exhausted) {
    const asked = step.value;
    for (const candidate of asked) check(candidate, problem, attack.name);
    const affordable = asked.slice(0, budget - tally.queries);
    const scores = affordable.length > 0 ? yield affordable : [];
    tally.add(affordable, scores);
    exhausted = affordable.length < asked.length;
    if (!exhausted) step = search.next(scores);
  }
  const { picks } = step.done ? step.value : tally.best;
  check({ picks }, problem, attack.name);
  // Not a query: the algorithm has asked it already, and so has the cache.
  const [after] = (yield [{ picks }]) as [Score];
  const outcome = fools(after, label) ? "success" : "failed";
  const exact = attack.exact ? { exact: !exhausted && attack.exact(problem) } : {};
  return resultOf(target, { ...tally.counts, ...exact, exhausted, outcome, picks, before, after });
}

/** Counts queries as the sequential algorithm asks them, and keeps the text that came nearest to fooling. */
class Tally {
  queries = 0;
  best: Candidate = { picks: new Int16Array() };
  #lowest = Number.POSITIVE_INFINITY;
  #nearTie = false;

  constructor(readonly label: number) {}

  get counts(): { queries: number; nearTie: boolean } {
    return { queries: this.queries, nearTie: this.#nearTie };
  }

  add(candidates: readonly Candidate[], scores: readonly Score[]): void {
    let fooled = false;
    candidates.forEach((candidate, i) => {
      if (candidate.sequential && fooled) return;
      this.queries++;
      if (candidate.mask !== undefined) return;
      const gap = lead(scores[i]!, this.label);
      fooled ||= gap < 0;
      this.#nearTie ||= Math.abs(gap) < nearTieMargin;
      if (gap >= this.#lowest) return;
      this.#lowest = gap;
      this.best = candidate;
    });
  }
}

/** A search of a user's own may err: better a clear word than a text outside the attack space. */
function check({ picks, mask }: Candidate, problem: Problem, name: string): void {
  const { choices, maxChanged } = problem;
  if (!(picks instanceof Int16Array) || picks.length !== choices.length) {
    throw new UserError(`attack ${name}: a candidate must have picks, an Int16Array with one slot for each of the ${choices.length} words`);
  }
  const wrong = picks.findIndex((slot, i) => slot < 0 || slot >= choices[i]!.length);
  if (wrong !== -1)
    throw new UserError(`attack ${name}: word ${wrong} has ${choices[wrong]!.length} choices, a candidate picks number ${picks[wrong]}`);
  const changed = changedCount(picks);
  if (changed > maxChanged) throw new UserError(`attack ${name}: at most ${maxChanged} words may change, a candidate changes ${changed}`);
  if (mask !== undefined && (mask < 0 || mask >= picks.length)) throw new UserError(`attack ${name}: there is no word ${mask} to mask`);
}
