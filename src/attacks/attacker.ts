import type { Example } from "../tasks/example.js";
import type { EditedText } from "./edited-text.js";
import type { HiddenWord } from "./protocol.js";
import type { QueryCounters } from "./query-counters.js";
import type { AttackResult } from "./result.js";

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

export interface AttackerRunOptions {
  readonly seed: number | string;
  readonly budget?: QueryBudget | undefined;
  /** Number of examples at the start whose results are already known. */
  readonly skip?: number;
  /** Stops the attack with an error between two calls of the victim. */
  readonly signal?: AbortSignal | undefined;
  /** Called after each call of the victim with the texts of one example that it scored. */
  onScores?(exampleId: string, scored: readonly ScoredCandidate[]): void;
}

/** Attacks examples in order: a recipe in a pool, or an attack with its own loop. */
export interface Attacker {
  readonly name: string;
  /** The validated options, for the journal. */
  readonly options: unknown;
  readonly hasBudget: boolean;
  /** True if it uses gradients of the victim. */
  readonly isWhiteBox: boolean;
  /** SHA-256 of the victim and of the resources, by name. */
  readonly hashes: Readonly<Record<string, string>>;
  /** Totals so far. */
  readonly counters: QueryCounters;
  /** Seconds that other processes have spent, if they attack instead of this one. */
  readonly seconds?: number;
  /** Yields one result per example, in order, without the first `skip`. */
  run(examples: Iterable<Example> | AsyncIterable<Example>, options: AttackerRunOptions): AsyncIterable<AttackResult>;
}
