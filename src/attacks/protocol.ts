import { groupBy } from "../base/group-by.js";
import type { Rng } from "../base/rng.js";
import type { Example } from "../tasks/example.js";
import type { EditedText } from "./edited-text.js";
import type { Goal } from "./goals.js";
import type { QueryCounters } from "./query-counters.js";
import type { ResourceGenerator, ResourceRequest } from "./requests.js";
import type { GradientSource } from "./resources.js";
import type { AttackResult } from "./result.js";

/** The effect of a transformation on a word. Some constraints apply to swaps only. */
export type TransformationKind = "swap" | "insert" | "delete" | "merge" | "append" | "text";

/** Changes a text at some positions: the candidates before any constraint. */
export interface Transformation {
  readonly name: string;
  readonly kind: TransformationKind;
  /**
   * True if the candidates of a word are the same in every version of a text, best first. Their
   * number is then the size of the attack space. Candidates of other transformations are sorted.
   */
  readonly isTable?: boolean;
  apply(text: EditedText, positions: readonly number[], rng: Rng): EditedText[] | ResourceGenerator<EditedText[]>;
}

/** Limits what an attack may do. A constraint has one of the three functions, or several. */
export interface Constraint {
  readonly name: string;
  /** Returns true if a word may change. */
  isOpen?(text: EditedText, position: number, kind: TransformationKind): boolean;
  /** Returns true if a candidate, made from the current text, is allowed. */
  allows?(candidate: EditedText, current: EditedText): boolean;
  /** The same for all candidates of a text, with the help of a resource. */
  filter?(candidates: readonly EditedText[], current: EditedText): ResourceGenerator<readonly EditedText[]>;
}

export interface Candidate {
  readonly text: EditedText;
  /** With a hidden word, the text is not a possible result. */
  readonly hidden?: HiddenWord;
  /**
   * Set this if the algorithm would query the candidates one by one and stop at the first that
   * reaches the goal. Yielding them together fills batches. Later ones do not count as queries.
   */
  readonly sequential?: boolean;
}

/** A text with the value that the goal gives it. */
export interface ScoredText {
  readonly text: EditedText;
  /** Higher is closer to the goal. */
  readonly value: number;
  readonly isReached: boolean;
}

export type SearchRequest =
  | { readonly kind: "score"; readonly candidates: readonly Candidate[] }
  | {
      readonly kind: "expand";
      readonly text: EditedText;
      readonly positions: readonly number[];
      /** Only transformations of this kind; default: all. */
      readonly only?: TransformationKind | undefined;
    }
  | ResourceRequest;

export type SearchGenerator<Result = EditedText> = Generator<SearchRequest, Result, readonly unknown[]>;

/** One example as a search sees it. */
export interface Problem {
  readonly id: string;
  readonly label: number;
  /** The original text with its value. */
  readonly original: ScoredText;
  /** The maximum number of texts to score for this example, the original one included; infinite without a budget. */
  readonly budget: number;
  readonly isMaximized: boolean;
  /** The positions that the constraints allow to change. */
  findOpenPositions(text: EditedText): number[];
  /** Returns true if a text that was combined from others satisfies the constraints on its words. */
  isAllowed(text: EditedText): boolean;
}

/**
 * The search method of a recipe. It asks for candidates and for scores, and returns the text that
 * it decides on. It knows neither model nor batches.
 */
export interface Search {
  readonly name: string;
  /** Queries per example, in words. */
  readonly cost: string;
  /**
   * True if a failure of the search proves that no candidate reaches the goal, unless it says
   * otherwise (`Unproven`). Such a search is scored exactly.
   */
  readonly proves?: boolean;
  run(problem: Problem, rng: Rng): SearchGenerator<EditedText | Unproven>;
}

/** The result of a search that has not tried everything. */
export class Unproven {
  constructor(readonly text: EditedText) {}
}

/** Scores candidates. Use it as `yield* score(…)`. */
export function* score(candidates: readonly Candidate[]): SearchGenerator<readonly ScoredText[]> {
  if (candidates.length === 0) return [];
  return (yield { kind: "score", candidates }) as readonly ScoredText[];
}

/** Lists the allowed candidates of a text at some positions. Use it as `yield* expand(…)`. */
export function* expand(
  text: EditedText,
  positions: readonly number[],
  only?: TransformationKind,
): SearchGenerator<readonly EditedText[]> {
  if (positions.length === 0) return [];
  return (yield { kind: "expand", text, positions, only }) as readonly EditedText[];
}

/** Scores all candidates of a text at some positions, best first. Equal values keep their order. */
export function* scoreCandidates(
  text: EditedText,
  positions: readonly number[],
  only?: TransformationKind,
): SearchGenerator<ScoredText[]> {
  const candidates = yield* expand(text, positions, only);
  const scored = yield* score(candidates.map((candidate) => ({ text: candidate })));
  return [...scored].sort((a, b) => b.value - a.value);
}

/** Lists the allowed candidates of the original text by word, for searches that combine them. */
export function* expandWords(problem: Problem): SearchGenerator<ReadonlyMap<number, readonly EditedText[]>> {
  const { text } = problem.original;
  const candidates = yield* expand(text, problem.findOpenPositions(text));
  return new Map([...groupBy(candidates, ({ position }) => position)].sort(([a], [b]) => a - b));
}

/**
 * Queries texts in order, in groups of growing size, and returns the first that reaches the goal.
 * Use it as `yield* findFirst(…)`.
 */
export function* findFirst(texts: Iterable<EditedText>, firstGroupSize = 2): SearchGenerator<EditedText | undefined> {
  let size = firstGroupSize;
  let group: Candidate[] = [];
  function* scoreGroup(): SearchGenerator<EditedText | undefined> {
    return (yield* score(group)).find(({ isReached }) => isReached)?.text;
  }
  for (const text of texts) {
    group.push({ text, sequential: true });
    if (group.length < size) continue;
    const found = yield* scoreGroup();
    if (found) return found;
    // Doubling wastes at most as many texts as were needed, and a long list takes few rounds.
    size = Math.min(size * 2, 64);
    group = [];
  }
  return yield* scoreGroup();
}

/** A search that attacks many examples at once, without asking for scores. */
export interface BatchSearch extends Pick<Search, "name" | "cost"> {
  /** Yields one result per example, in order, without the first `skip`. */
  runAll(
    recipe: Recipe,
    examples: Iterable<Example> | AsyncIterable<Example>,
    options: RunOptions,
    counters: QueryCounters,
  ): AsyncIterable<AttackResult>;
}

/** The goal, the changes, the limits and the search of an attack. */
export interface Recipe {
  readonly goal: Goal;
  readonly transformations: readonly Transformation[];
  readonly constraints: readonly Constraint[];
  readonly search: Search | BatchSearch;
  /** The same search guided by gradients, by which the attack is checked. */
  readonly createWhiteBoxSearch?: (source: GradientSource) => Search;
  /** True if words that the victim does not read may change, too. */
  readonly changesAllWords?: boolean;
}

/** A word that a text is scored without, to measure how important it is. */
export interface HiddenWord {
  readonly position: number;
  /** Stands in its place: the victim's unknown token, another word, or nothing (null). */
  readonly shown: { readonly unknown: true } | { readonly word: string } | null;
}

export interface ScoredCandidate {
  readonly text: EditedText;
  readonly hidden?: HiddenWord | undefined;
  readonly probabilities: ArrayLike<number>;
}

/** Maximum number of queries per example, or per word of an example. */
export type QueryBudget = number | { readonly perWord: number };

/** The maximum number of queries for a text with so many words. */
export function computeMaxQueries(budget: QueryBudget | undefined, words: number): number {
  return typeof budget === "object" ? budget.perWord * words : (budget ?? Number.POSITIVE_INFINITY);
}

export interface RunOptions {
  readonly seed: number | string;
  readonly budget?: QueryBudget | undefined;
  /** Number of examples at the start whose results are already known. */
  readonly skip?: number;
  /** Stops the attack with `Interrupted`, between two calls of the victim or while candidates are created. */
  readonly signal?: AbortSignal | undefined;
  /** Called after each call of the victim with the texts of one example that it scored. */
  onScores?(exampleId: string, scored: readonly ScoredCandidate[]): void;
}
