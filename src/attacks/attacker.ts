import type { AttackExample } from "./attack-space.js";
import type { AttackResult } from "./result.js";

/** Work asked for and work done: the difference is what deduplication and the cache saved. */
export interface QueryCounters {
  asked: number;
  askedTokens: number;
  forwarded: number;
  forwardedTokens: number;
}

/** What a run is told. */
export interface AttackerRunOptions {
  readonly seed: number | string;
  /** The most queries an example may cost. */
  readonly budget?: number;
  /** Results that are known already: the examples are not reported again. */
  readonly skip?: number;
}

/** Anything that attacks examples in order: a search over a pool, or a white-box attack that reads a model's gradients. */
export interface Attacker {
  readonly name: string;
  /** The resolved options, for the journal. */
  readonly options: unknown;
  /** True where it stops at a budget of its own, so that late successes are a sign that a larger one would find more. */
  readonly hasBudget: boolean;
  /** SHA-256 of what it attacks, by name ({ model, tokenizer }). */
  readonly hashes: Readonly<Record<string, string>>;
  /** Work so far; it only grows. */
  readonly counters: QueryCounters;
  /** One result a target, in order, without the first `skip`. */
  run(targets: AsyncIterable<AttackExample>, options: AttackerRunOptions): AsyncIterable<AttackResult>;
}
