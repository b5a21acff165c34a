import type { EditedText } from "./edited-text.js";

/** A word that a text is scored without, to measure how important it is. */
export interface HiddenWord {
  readonly position: number;
  /** Stands in its place: the victim's unknown token, another word, or nothing (null). */
  readonly shown: { readonly unknown: true } | { readonly word: string } | null;
}

/** A text that the victim has scored. */
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

/** The settings of an attack on examples. */
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
