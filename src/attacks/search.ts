import type { z } from "zod";
import { UserError } from "../errors.js";
import type { Rng } from "../tensor/random.js";
import type { AttackExample } from "./attack-space.js";
import { type AttackResult, createAttackResult } from "./result.js";

/** The victim's answer for one text. */
export interface Score {
  /** One probability per class. */
  readonly probabilities: ArrayLike<number>;
}

/** One text to score, described by the replacement of each word. */
export interface Candidate {
  /** One index per word into its replacements. Index 0 is the word itself. */
  readonly replacementIndices: Int16Array;
  /** Position of a word to replace by the unknown token, as PWWS does to compute word saliency. */
  readonly mask?: number;
  /** The word that stands at the masked position instead of the unknown token. */
  readonly maskWord?: string;
  /**
   * Set this if the algorithm would query the candidates one by one and stop at the first
   * misclassified one. Yielding them together fills batches. Later ones do not count as queries.
   */
  readonly sequential?: boolean;
  /**
   * True if the score only ranks words, and the search does not end with this text. In low
   * precision, it is not confirmed. Default: whether a word is masked.
   */
  readonly isProbe?: boolean;
  /**
   * True if the search has scored this text as a probe, and may end with it. In low precision, the
   * score is confirmed; in float32, it is the same. It does not count as a query.
   */
  readonly isConfirmation?: boolean;
  /**
   * Whether the score must be that of float32, because it is recorded in the result (that of the
   * original or of the final text) or proves it.
   */
  readonly isRecorded?: boolean;
}

/** One example as a search sees it, without text, model or batches. */
export interface SearchProblem {
  /** ID of the example. */
  readonly id: string;
  readonly words: readonly string[];
  /** The replacements of each word. Index 0 is the word itself; a word with no others is fixed. */
  readonly replacements: readonly (readonly string[])[];
  /** The gold label, which is also the prediction for the original text. */
  readonly label: number;
  readonly numLabels: number;
  readonly originalScore: Score;
  /** Maximum number of words that may change. */
  readonly maxChanged: number;
}

/** Yields candidates, receives their scores in the same order, and returns a result. */
export type CandidateGenerator<Result = Candidate> = Generator<Candidate[], Result, Score[]>;

/**
 * An attack's algorithm: a generator that returns the candidate it decides on.
 * It must be deterministic, except for draws from its random stream.
 *
 * @example
 * const firstSubstitute: Search = function* (problem) {
 *   const [position] = modifiablePositions(problem);
 *   const original = createUnchangedCandidate(problem);
 *   if (position === undefined) return original;
 *   const replacementIndices = withReplacement(original.replacementIndices, position, 1);
 *   const candidate = { replacementIndices };
 *   const [score] = yield [candidate];
 *   return isMisclassified(score!, problem.label) ? candidate : original;
 * };
 */
export type Search = (problem: SearchProblem, rng: Rng) => CandidateGenerator;

/**
 * A search with its name and the schema of its options. Each attack in this folder exports one.
 * A custom attack file may export one as its default export.
 *
 * @example
 * const options = z.strictObject({ samples: z.int().min(1).default(100) });
 * const search = ({ samples }) => (problem, rng) => sampleTexts(problem, rng, samples);
 * export default { options, search };
 */
export interface AttackDefinition<Options = unknown> {
  readonly name: string;
  readonly options: z.ZodType<Options>;
  /**
   * True if the search has its own budget. Many late successes then mean that a larger budget would
   * find more.
   */
  readonly hasBudget: boolean;
  /** True if the search honors the language-model constraint, when there is one. */
  readonly usesLanguageModel?: boolean;
  search(options: Options): Search;
  /** Returns whether a failure on a problem proves that no substitution fools the victim. */
  exact?(options: Options): (problem: SearchProblem) => boolean;
}

/** An attack that is ready to run, with validated options. */
export interface Attack extends Pick<AttackDefinition, "name" | "hasBudget" | "usesLanguageModel"> {
  /** The validated options, for the journal. */
  readonly options: unknown;
  /** SHA-256 of the file of a custom attack. Built-in attacks have none. */
  readonly source?: string;
  readonly search: Search;
  readonly exact?: (problem: SearchProblem) => boolean;
}

/** The classification margin: the gold label's probability minus the highest other one. */
export function margin({ probabilities }: Score, label: number): number {
  let other = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < probabilities.length; i++) if (i !== label) other = Math.max(other, probabilities[i]!);
  return probabilities[label]! - other;
}

/** Returns whether the margin is negative. A tie is not a misclassification. */
export function isMisclassified(score: Score, label: number): boolean {
  return margin(score, label) < 0;
}

/** Returns the probability of the gold label. */
export function getGoldProbability(score: Score, problem: SearchProblem): number {
  return score.probabilities[problem.label]!;
}

/** Returns the original text as a candidate. */
export function createUnchangedCandidate(problem: Pick<SearchProblem, "words">): Candidate {
  return { replacementIndices: new Int16Array(problem.words.length) };
}

/** Returns a copy of `replacementIndices` with a different replacement at one position. */
export function withReplacement(replacementIndices: Int16Array, position: number, index: number): Int16Array {
  const copy = replacementIndices.slice();
  copy[position] = index;
  return copy;
}

/** Returns how many words differ from the original. */
export function countChangedWords(replacementIndices: Int16Array): number {
  let count = 0;
  for (const index of replacementIndices) if (index !== 0) count++;
  return count;
}

/** Returns the positions of the words that have a substitute. */
export function modifiablePositions(problem: Pick<SearchProblem, "replacements">): number[] {
  return problem.replacements.flatMap((words, position) => (words.length > 1 ? [position] : []));
}

/**
 * Queries `candidates` in order, in groups of growing size, and returns the first misclassified
 * one. Use it as `yield* firstMisclassified(…)`.
 */
export function* firstMisclassified(
  candidates: Iterable<Candidate>,
  problem: SearchProblem,
  firstGroupSize = 2,
): CandidateGenerator<Candidate | undefined> {
  let size = firstGroupSize;
  let group: Candidate[] = [];
  function* scoreGroup(): CandidateGenerator<Candidate | undefined> {
    if (group.length === 0) return undefined;
    const scores = yield group.map((candidate) => ({ ...candidate, sequential: true }));
    return group[scores.findIndex((score) => isMisclassified(score, problem.label))];
  }
  for (const candidate of candidates) {
    group.push(candidate);
    if (group.length < size) continue;
    const found = yield* scoreGroup();
    if (found) return found;
    // Doubling wastes at most as many texts as were needed, and a long list takes few rounds.
    size = Math.min(size * 2, 64);
    group = [];
  }
  return yield* scoreGroup();
}

/** Below this margin, the summation order within a batch may decide the prediction. */
export const nearTieMargin = 1e-4;

/**
 * Attacks one example: scores the original text, runs the search within the query budget, and
 * scores the final text. It is a generator too, so it does not depend on pools and batches.
 */
export function* runSearch(
  example: AttackExample,
  attack: Attack,
  rng: Rng,
  numLabels: number,
  budget = Number.POSITIVE_INFINITY,
): CandidateGenerator<AttackResult> {
  const { id, words, replacements, label, maxChanged } = example;
  const original = createUnchangedCandidate(example);
  const [before] = (yield [{ ...original, isRecorded: true }]) as [Score];
  const tally = new QueryTally(label);
  tally.add([original], [before]);
  if (isMisclassified(before, label))
    return createAttackResult(example, { ...tally.counts, ...original, outcome: "skipped", before, after: before });

  const problem = { id, words, replacements, label, numLabels, originalScore: before, maxChanged };
  const search = attack.search(problem, rng);
  let step = search.next();
  let exhausted = false;
  while (!step.done && !exhausted) {
    const candidates = step.value;
    for (const candidate of candidates) checkCandidate(candidate, problem, attack.name);
    const isFree = candidates.every(({ isConfirmation }) => isConfirmation);
    const affordable = isFree ? candidates : candidates.slice(0, budget - tally.queries);
    // A proof needs the scores of float32.
    const asked = attack.exact ? affordable.map((candidate) => ({ ...candidate, isRecorded: true })) : affordable;
    const scores = asked.length > 0 ? yield asked : [];
    tally.add(affordable, scores);
    exhausted = affordable.length < candidates.length;
    if (!exhausted) step = search.next(scores);
  }
  const { replacementIndices } = step.done ? step.value : tally.best;
  checkCandidate({ replacementIndices }, problem, attack.name);
  // This is not counted as a query because the algorithm has already scored this text.
  const [after] = (yield [{ replacementIndices, isRecorded: true }]) as [Score];
  const outcome = isMisclassified(after, label) ? "success" : "failed";
  const exact = attack.exact ? { exact: !exhausted && attack.exact(problem) } : {};
  tally.checkTie(after);
  const found = { ...tally.counts, ...exact, exhausted, outcome, replacementIndices, before, after } as const;
  return createAttackResult(example, found);
}

/**
 * Counts queries as the sequential algorithm would, and keeps the candidate with the lowest margin.
 */
class QueryTally {
  queries = 0;
  best: Candidate = { replacementIndices: new Int16Array() };
  #lowestMargin = Number.POSITIVE_INFINITY;
  #nearTie = false;

  constructor(readonly label: number) {}

  get counts(): { queries: number; nearTie: boolean } {
    return { queries: this.queries, nearTie: this.#nearTie };
  }

  add(candidates: readonly Candidate[], scores: readonly Score[]): void {
    let fooled = false;
    candidates.forEach((candidate, i) => {
      if (candidate.sequential && fooled) return;
      if (!candidate.isConfirmation) this.queries++;
      if (candidate.mask !== undefined) return;
      const gap = this.checkTie(scores[i]!);
      fooled ||= gap < 0;
      if (gap >= this.#lowestMargin) return;
      this.#lowestMargin = gap;
      this.best = candidate;
    });
  }

  /** Records whether the margin of a score is a near tie. Returns the margin. */
  checkTie(score: Score): number {
    const gap = margin(score, this.label);
    this.#nearTie ||= Math.abs(gap) < nearTieMargin;
    return gap;
  }
}

/**
 * Rejects a candidate outside the attack space, so that errors in a custom search are easy to find.
 */
function checkCandidate({ replacementIndices, mask }: Candidate, problem: SearchProblem, name: string): void {
  const { replacements, maxChanged } = problem;
  const fail = (message: string): never => {
    throw new UserError(`attack ${name}: ${message}`);
  };
  if (!(replacementIndices instanceof Int16Array) || replacementIndices.length !== replacements.length)
    fail(`expected replacementIndices, an Int16Array with one index for each of ${replacements.length} words`);
  const invalid = replacementIndices.findIndex((index, i) => index < 0 || index >= replacements[i]!.length);
  if (invalid !== -1) {
    const count = replacements[invalid]!.length;
    fail(`word ${invalid} has ${count} replacements, but a candidate uses index ${replacementIndices[invalid]}`);
  }
  const changed = countChangedWords(replacementIndices);
  if (changed > maxChanged) fail(`at most ${maxChanged} words may change, but a candidate changes ${changed}`);
  if (mask !== undefined && (mask < 0 || mask >= replacementIndices.length))
    fail(`a candidate masks word ${mask}, but the text has ${replacementIndices.length} words`);
}
