import { UserError } from "../errors.js";
import type { Rng } from "../tensor/random.js";
import type { Attack } from "./attack-definition.js";
import type { AttackExample } from "./attack-space.js";
import { type AttackResult, createAttackResult } from "./result.js";
import {
  type Candidate,
  countChangedWords,
  createUnchangedCandidate,
  isMisclassified,
  margin,
  type Score,
  type SearchProblem,
} from "./search.js";

/** Below this lead, the order of a batch's sums may decide who wins. */
export const nearTieMargin = 1e-4;

/**
 * The whole course of one example: the original text, the search under a query budget, the final text. Itself a generator of
 * candidates, so that it knows nothing of pools and batches.
 */
export function* runSearch(
  target: AttackExample,
  attack: Attack,
  rng: Rng,
  classes: number,
  budget = Number.POSITIVE_INFINITY,
): Generator<Candidate[], AttackResult, Score[]> {
  const { label } = target;
  const original = createUnchangedCandidate(target);
  const [before] = (yield [original]) as [Score];
  const tally = new QueryTally(label);
  tally.add([original], [before]);
  if (isMisclassified(before, label))
    return createAttackResult(target, {
      ...tally.counts,
      outcome: "skipped",
      replacementIndices: original.replacementIndices,
      before,
      after: before,
    });

  const problem: SearchProblem = {
    id: target.id,
    words: target.words,
    replacements: target.replacements,
    label,
    numLabels: classes,
    originalScore: before,
    maxChanged: target.maxChanged,
  };
  const search = attack.search(problem, rng);
  let step = search.next();
  let exhausted = false;
  while (!step.done && !exhausted) {
    const asked = step.value;
    for (const candidate of asked) checkCandidate(candidate, problem, attack.name);
    const affordable = asked.slice(0, budget - tally.queries);
    const scores = affordable.length > 0 ? yield affordable : [];
    tally.add(affordable, scores);
    exhausted = affordable.length < asked.length;
    if (!exhausted) step = search.next(scores);
  }
  const { replacementIndices: picks } = step.done ? step.value : tally.best;
  checkCandidate({ replacementIndices: picks }, problem, attack.name);
  // Not a query: the algorithm has asked it already, and so has the cache.
  const [after] = (yield [{ replacementIndices: picks }]) as [Score];
  const outcome = isMisclassified(after, label) ? "success" : "failed";
  const exact = attack.exact ? { exact: !exhausted && attack.exact(problem) } : {};
  return createAttackResult(target, {
    ...tally.counts,
    ...exact,
    exhausted,
    outcome,
    replacementIndices: picks,
    before,
    after,
  });
}

/** Counts queries as the sequential algorithm asks them, and keeps the text that came nearest to fooling. */
class QueryTally {
  queries = 0;
  best: Candidate = { replacementIndices: new Int16Array() };
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
      const gap = margin(scores[i]!, this.label);
      fooled ||= gap < 0;
      this.#nearTie ||= Math.abs(gap) < nearTieMargin;
      if (gap >= this.#lowest) return;
      this.#lowest = gap;
      this.best = candidate;
    });
  }
}

/** A search of a user's own may err: better a clear word than a text outside the attack space. */
function checkCandidate({ replacementIndices: picks, mask }: Candidate, problem: SearchProblem, name: string): void {
  const { replacements: choices, maxChanged } = problem;
  if (!(picks instanceof Int16Array) || picks.length !== choices.length) {
    throw new UserError(
      `attack ${name}: a candidate must have picks, an Int16Array with one slot for each of the ${choices.length} words`,
    );
  }
  const wrong = picks.findIndex((slot, i) => slot < 0 || slot >= choices[i]!.length);
  if (wrong !== -1)
    throw new UserError(
      `attack ${name}: word ${wrong} has ${choices[wrong]!.length} choices, a candidate picks number ${picks[wrong]}`,
    );
  const changed = countChangedWords(picks);
  if (changed > maxChanged)
    throw new UserError(`attack ${name}: at most ${maxChanged} words may change, a candidate changes ${changed}`);
  if (mask !== undefined && (mask < 0 || mask >= picks.length))
    throw new UserError(`attack ${name}: there is no word ${mask} to mask`);
}
