import { readFile, rm } from "node:fs/promises";
import { z } from "zod";
import { UserError } from "../errors.js";
import { writeFileAtomic } from "../files.js";
import type { AttackExample } from "./attack-space.js";
import { type JournalHeader, JournalWriter } from "./journal.js";
import { addCounters, countersSchema, createCounters, type QueryCounters } from "./query-counters.js";
import type { AttackResult } from "./result.js";
import type { RecipeExample } from "./run-recipe.js";
import { modifiablePositions } from "./search.js";

/** An example with the replacements of its words, or as a recipe attacks it. */
export type AnyExample = AttackExample | RecipeExample;

/** The cost of an attack. It depends on batches and caches, so it is stored next to the journal. */
const timingSchema = countersSchema.extend({ seconds: z.number() });
type AttackTiming = z.output<typeof timingSchema>;

export interface AttackerRunOptions {
  readonly seed: number | string;
  /** Maximum number of queries per example. */
  readonly budget?: number | undefined;
  /** Number of examples at the start whose results are already known. */
  readonly skip?: number;
}

/** Attacks examples in order: a search in a pool, or a white-box attack that uses gradients. */
export interface Attacker {
  readonly name: string;
  /** The validated options, for the journal. */
  readonly options: unknown;
  /**
   * True if the attack has its own budget. Many late successes then mean that a larger budget would
   * find more.
   */
  readonly hasBudget: boolean;
  /** SHA-256 of the parts of the victim ({ model, tokenizer }). */
  readonly hashes: Readonly<Record<string, string>>;
  /** Totals so far. */
  readonly counters: QueryCounters;
  /** Seconds that other processes have spent, if they attack instead of this one. */
  readonly seconds?: number;
  /** Yields one result per example, in order, without the first `skip`. */
  run(examples: AsyncIterable<AnyExample>, options: AttackerRunOptions): AsyncIterable<AttackResult>;
}

export interface RunAttackOptions {
  readonly attacker: Attacker;
  /** The examples in order. A lazy iterable keeps memory constant. */
  readonly attackExamples: Iterable<AnyExample> | AsyncIterable<AnyExample>;
  readonly numExamples: number;
  readonly seed: number | string;
  /** Maximum number of queries per example. */
  readonly budget?: number | undefined;
  /** SHA-256 of what determines the attack space ({ substitutions, languageModel }). */
  readonly hashes: Readonly<Record<string, string>>;
  /** SHA-256 of the first examples. A journal of fewer examples is extended if theirs is equal. */
  hashFirst?(numExamples: number): string;
  /** Everything else that determines the results (task, split, constraints). */
  readonly settings: Readonly<Record<string, unknown>>;
  readonly journalPath: string;
  readonly resume?: boolean;
  /** True for some of the examples: they may all have no modifiable word. */
  readonly isShard?: boolean;
  /** Called before the first example with the number of finished ones. */
  onStart?(done: number): void;
  onResult?(result: AttackResult, done: number): void;
}

/**
 * Runs one attack on all examples and writes its journal. With `resume`, it continues a stopped
 * run, or extends a run on fewer examples.
 */
export async function runAttack(options: RunAttackOptions): Promise<void> {
  const { attacker, seed, budget, numExamples, journalPath, resume = false } = options;
  const createHeader = (examples: number): JournalHeader => ({
    attack: attacker.name,
    options: attacker.options,
    hashes: {
      ...attacker.hashes,
      ...options.hashes,
      ...(options.hashFirst && { data: options.hashFirst(examples) }),
    },
    settings: { ...options.settings, hasBudget: attacker.hasBudget, budget },
    seed,
    examples,
  });
  const journal = await JournalWriter.open(journalPath, createHeader(numExamples), resume, createHeader);
  const spent = resume ? await readTiming(journalPath) : createTiming();
  const saveTiming = createTimingWriter(journalPath, attacker, spent);
  let saved = performance.now();
  let done = journal.count;
  try {
    options.onStart?.(done);
    if (done === numExamples) return;
    const { attackExamples } = options;
    const examples = options.isShard ? toAsync(attackExamples) : requireModifiableWords(attackExamples);
    for await (const result of attacker.run(examples, { seed, skip: done, budget })) {
      journal.append(result);
      options.onResult?.(result, ++done);
      if (performance.now() - saved < 5000) continue;
      await saveTiming();
      saved = performance.now();
    }
    await saveTiming();
  } catch (error) {
    // A journal without results cannot be resumed and would only block the next attempt.
    if (done === 0) await rm(journalPath, { force: true });
    throw error;
  } finally {
    journal.close();
  }
}

/** The file next to a journal that has its timing. */
export function getTimingPath(journalPath: string): string {
  return `${journalPath.replace(/\.jsonl$/, "")}.timing.json`;
}

const createTiming = (): AttackTiming => ({ ...createCounters(), seconds: 0 });

/** Reads the total cost of the runs that wrote a journal; zeros if it was never recorded. */
export async function readTiming(journalPath: string): Promise<AttackTiming> {
  try {
    return timingSchema.parse(JSON.parse(await readFile(getTimingPath(journalPath), "utf8")));
  } catch {
    return createTiming();
  }
}

/** Returns a function that adds the cost since now to `spent` and writes the total. */
function createTimingWriter(journalPath: string, attacker: Attacker, spent: AttackTiming): () => Promise<void> {
  const [startCounters, startTime] = [structuredClone(attacker.counters), performance.now()];
  return () => {
    const seconds = attacker.seconds ?? (performance.now() - startTime) / 1000;
    const timing = { ...structuredClone(spent), seconds: spent.seconds + seconds };
    addCounters(timing, attacker.counters, startCounters);
    return writeFileAtomic(getTimingPath(journalPath), `${JSON.stringify(timing)}\n`);
  };
}

async function* toAsync<T>(items: Iterable<T> | AsyncIterable<T>): AsyncGenerator<T> {
  yield* items;
}

/** If none of the first examples has a modifiable word, the substitutions do not fit the texts. */
const checkedExamples = 200;

async function* requireModifiableWords(
  examples: Iterable<AnyExample> | AsyncIterable<AnyExample>,
): AsyncGenerator<AnyExample> {
  let count = 0;
  let modifiable = 0;
  const check = () => {
    if (modifiable > 0 || count === 0) return;
    throw new UserError(
      `attack: no word of ${count} examples has a substitute. Check the language of the substitutions, and the ` +
        "constraints.",
    );
  };
  for await (const example of examples) {
    count++;
    modifiable += "replacements" in example ? modifiablePositions(example).length : Number(example.isModifiable);
    if (count === checkedExamples) check();
    yield example;
  }
  check();
}
