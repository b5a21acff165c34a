import type { Rng } from "../tensor/random.js";

/** What the victim said of one text. */
export interface Score {
  /** One probability a class. */
  readonly probabilities: ArrayLike<number>;
}

/** One text to be scored: which slot each word takes, and at most one word read as the unknown token. */
export interface Candidate {
  /** For each word the index into its choices; 0 leaves it as it is. */
  readonly picks: Int16Array;
  /** Index of a word to be hidden behind the unknown token (PWWS's saliency). */
  readonly mask?: number;
  /**
   * Set on candidates that the algorithm asks one after the other until one fools the victim. They may be yielded together, which
   * fills batches; those after the first that fools are not counted as queries.
   */
  readonly sequential?: boolean;
}

/** One example as a search sees it: no text, no model, no batches. */
export interface Problem {
  /** The example's id. */
  readonly id: string;
  readonly words: readonly string[];
  /** The words that may stand at each place; slot 0 is the word itself, and a list of length 1 is closed. */
  readonly choices: readonly (readonly string[])[];
  /** The gold label; the original text is classified as it. */
  readonly label: number;
  readonly classes: number;
  /** The score of the original text. */
  readonly original: Score;
  /** The most words that may differ from the original. */
  readonly maxChanged: number;
}

/** Yields candidates, receives their scores in the same order, returns the one it settles on. Pure but for its own random stream. */
export type Search = (problem: Problem, rng: Rng) => Generator<Candidate[], Candidate, Score[]>;

/** How far the gold label leads: its probability less the best other one's. Below 0 the victim is fooled. */
export function lead(score: Score, label: number): number {
  const { probabilities } = score;
  let other = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < probabilities.length; i++) if (i !== label) other = Math.max(other, probabilities[i]!);
  return probabilities[label]! - other;
}

/** Whether another class than the gold label wins; a tie fools nobody. */
export function fools(score: Score, label: number): boolean {
  return lead(score, label) < 0;
}

/** The probability of the gold label. */
export function goldProbability(score: Score, problem: Problem): number {
  return score.probabilities[problem.label]!;
}

/** The original text as a candidate. */
export function unchanged(problem: Pick<Problem, "words">): Candidate {
  return { picks: new Int16Array(problem.words.length) };
}

/** A copy of `picks` with one word in another slot. */
export function withPick(picks: Int16Array, position: number, slot: number): Int16Array {
  const copy = picks.slice();
  copy[position] = slot;
  return copy;
}

/** How many words differ from the original. */
export function changedCount(picks: Int16Array): number {
  let count = 0;
  for (const slot of picks) if (slot !== 0) count++;
  return count;
}

/** Positions of the words that have a substitute. */
export function openPositions(problem: Pick<Problem, "choices">): number[] {
  return problem.choices.flatMap((slots, position) => (slots.length > 1 ? [position] : []));
}

/** Asks `candidates` one after the other in growing groups: the first that fools, or undefined. */
export function* firstThatFools(
  candidates: Iterable<Candidate>,
  problem: Problem,
  firstGroup = 2,
): Generator<Candidate[], Candidate | undefined, Score[]> {
  let size = firstGroup;
  let group: Candidate[] = [];
  function* ask(): Generator<Candidate[], Candidate | undefined, Score[]> {
    if (group.length === 0) return undefined;
    const scores = yield group.map((candidate) => ({ ...candidate, sequential: true }));
    return group[scores.findIndex((score) => fools(score, problem.label))];
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
