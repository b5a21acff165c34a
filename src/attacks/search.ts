import type { Rng } from "../tensor/random.js";

/** What the victim said of one text. */
export interface Score {
  /** One probability a class. */
  readonly probabilities: ArrayLike<number>;
}

/** One text to be scored: which slot each word takes, and at most one word read as the unknown token. */
export interface Candidate {
  /** For each word the index into its choices; 0 leaves it as it is. */
  readonly replacementIndices: Int16Array;
  /** Index of a word to be hidden behind the unknown token (PWWS's saliency). */
  readonly mask?: number;
  /**
   * Set on candidates that the algorithm asks one after the other until one fools the victim. They may be yielded together, which
   * fills batches; those after the first that fools are not counted as queries.
   */
  readonly sequential?: boolean;
}

/** One example as a search sees it: no text, no model, no batches. */
export interface SearchProblem {
  /** The example's id. */
  readonly id: string;
  readonly words: readonly string[];
  /** The words that may stand at each place; slot 0 is the word itself, and a list of length 1 is closed. */
  readonly replacements: readonly (readonly string[])[];
  /** The gold label; the original text is classified as it. */
  readonly label: number;
  readonly numLabels: number;
  /** The score of the original text. */
  readonly originalScore: Score;
  /** The most words that may differ from the original. */
  readonly maxChanged: number;
}

/** Yields candidates, receives their scores in the same order, returns the one it settles on. Pure but for its own random stream. */
export type Search = (problem: SearchProblem, rng: Rng) => Generator<Candidate[], Candidate, Score[]>;

/** How far the gold label leads: its probability less the best other one's. Below 0 the victim is fooled. */
export function margin(score: Score, label: number): number {
  const { probabilities } = score;
  let other = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < probabilities.length; i++) if (i !== label) other = Math.max(other, probabilities[i]!);
  return probabilities[label]! - other;
}

/** Whether another class than the gold label wins; a tie fools nobody. */
export function isMisclassified(score: Score, label: number): boolean {
  return margin(score, label) < 0;
}

/** The probability of the gold label. */
export function getGoldProbability(score: Score, problem: SearchProblem): number {
  return score.probabilities[problem.label]!;
}

/** The original text as a candidate. */
export function createUnchangedCandidate(problem: Pick<SearchProblem, "words">): Candidate {
  return { replacementIndices: new Int16Array(problem.words.length) };
}

/** A copy of `picks` with one word in another slot. */
export function withReplacement(picks: Int16Array, position: number, slot: number): Int16Array {
  const copy = picks.slice();
  copy[position] = slot;
  return copy;
}

/** How many words differ from the original. */
export function countChangedWords(picks: Int16Array): number {
  let count = 0;
  for (const slot of picks) if (slot !== 0) count++;
  return count;
}

/** Positions of the words that have a substitute. */
export function modifiablePositions(problem: Pick<SearchProblem, "replacements">): number[] {
  return problem.replacements.flatMap((slots, position) => (slots.length > 1 ? [position] : []));
}

/** Asks `candidates` one after the other in growing groups: the first that fools, or undefined. */
export function* firstMisclassified(
  candidates: Iterable<Candidate>,
  problem: SearchProblem,
  firstGroup = 2,
): Generator<Candidate[], Candidate | undefined, Score[]> {
  let size = firstGroup;
  let group: Candidate[] = [];
  function* ask(): Generator<Candidate[], Candidate | undefined, Score[]> {
    if (group.length === 0) return undefined;
    const scores = yield group.map((candidate) => ({ ...candidate, sequential: true }));
    return group[scores.findIndex((score) => isMisclassified(score, problem.label))];
  }
  for (const candidate of candidates) {
    group.push(candidate);
    if (group.length < size) continue;
    const found = yield* ask();
    if (found) return found;
    // Doubling wastes at most as many texts as were needed, and a long list still takes few rounds.
    size = Math.min(size * 2, 64);
    group = [];
  }
  return yield* ask();
}
