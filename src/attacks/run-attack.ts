import { rm } from "node:fs/promises";
import { z } from "zod";
import { Interrupted, UserError } from "../base/errors.js";
import { stopIfAborted } from "../base/event-loop.js";
import { readJson, writeFileAtomic } from "../base/files.js";
import type { Example } from "../tasks/example.js";
import type { ReadyAttack } from "./define-attack.js";
import { type JournalHeader, openJournal } from "./journal.js";
import type { SearchPool } from "./pool.js";
import type { QueryBudget } from "./protocol.js";
import { addCounters, countersSchema, createCounters } from "./query-counters.js";
import type { AttackResult } from "./result.js";

/** The cost of an attack. It depends on batches and caches, so it is stored next to the journal. */
const timingSchema = countersSchema.extend({ seconds: z.number() });
type Timing = z.output<typeof timingSchema>;

export interface JournalOptions {
  readonly attack: ReadyAttack;
  readonly pool: SearchPool;
  readonly examples: readonly Example[];
  readonly seed: number | string;
  readonly budget?: QueryBudget | undefined;
  /** SHA-256 of the first examples. A journal of fewer examples is extended if theirs is equal. */
  hashFirst?(numExamples: number): string;
  /** Everything else that determines the results (task, split, constraints). */
  readonly settings: Readonly<Record<string, unknown>>;
  readonly journalPath: string;
  readonly resume?: boolean;
  /** True for some of the examples: they may all have no modifiable word. */
  readonly isShard?: boolean;
  /** Stops the attack. It then throws `Interrupted`. */
  readonly signal?: AbortSignal | undefined;
  /** Called before the first example with the number of finished ones. */
  onStart?(done: number): void;
  onResult?(result: AttackResult, done: number): void;
}

/**
 * Runs one attack on all examples and writes its journal. With `resume`, it continues a stopped
 * run, or extends a run on fewer examples.
 */
export async function runAttack(options: JournalOptions): Promise<void> {
  const { attack, pool, seed, budget, examples, journalPath, resume = false } = options;
  const numExamples = examples.length;
  const createHeader = (count: number): JournalHeader => ({
    attack: attack.name,
    options: attack.options,
    hashes: {
      ...pool.victim.hashes,
      ...attack.hashes,
      ...(options.hashFirst && { data: options.hashFirst(count) }),
    },
    settings: {
      ...options.settings,
      hasBudget: attack.hasBudget,
      ...(attack.isWhiteBox && { isWhiteBox: true }),
      budget,
    },
    seed,
    examples: count,
  });
  const journal = await openJournal(journalPath, createHeader(numExamples), resume, createHeader);
  const spent = resume ? await readTiming(journalPath) : createTiming();
  const saveTiming = createTimingWriter(journalPath, options, spent);
  let saved = performance.now();
  let done = journal.count;
  try {
    options.onStart?.(done);
    if (done === numExamples) return;
    const results = pool.run(examples, attack, { seed, skip: done, budget, signal: options.signal });
    const checked = options.isShard || done > 0 ? results : requireModifiableWords(results);
    for await (const result of checked) {
      journal.append(result);
      options.onResult?.(result, ++done);
      stopIfAborted(options.signal);
      if (performance.now() - saved < 5000) continue;
      await saveTiming();
      saved = performance.now();
    }
    await saveTiming();
  } catch (error) {
    // A journal without results cannot be resumed and would only block the next attempt.
    if (done === 0) await rm(journalPath, { force: true });
    if (!(error instanceof Interrupted)) throw error;
    const kept = done === 0 ? "Nothing was written." : "Every finished example is in the journal.";
    throw new Interrupted(`Stopped after ${done} of ${numExamples} examples. ${kept}`);
  } finally {
    journal.close();
  }
}

/** The file next to a journal that has its timing. */
export function getTimingPath(journalPath: string): string {
  return `${journalPath.replace(/\.jsonl$/, "")}.timing.json`;
}

const createTiming = (): Timing => ({ ...createCounters(), seconds: 0 });

/** Reads the total cost of the runs that wrote a journal; zeros if it was never recorded. */
export async function readTiming(journalPath: string): Promise<Timing> {
  try {
    return timingSchema.parse(await readJson(getTimingPath(journalPath), "the timing", { kind: "settings" }));
  } catch {
    return createTiming();
  }
}

/** Returns a function that adds the cost since now to `spent` and writes the total. */
function createTimingWriter(
  journalPath: string,
  { attack, pool: { counters } }: Pick<JournalOptions, "attack" | "pool">,
  spent: Timing,
): () => Promise<void> {
  const [startCounters, startTime] = [structuredClone(counters), performance.now()];
  return () => {
    const seconds = attack.seconds ?? (performance.now() - startTime) / 1000;
    const timing = { ...structuredClone(spent), seconds: spent.seconds + seconds };
    addCounters(timing, counters, startCounters);
    return writeFileAtomic(getTimingPath(journalPath), `${JSON.stringify(timing)}\n`);
  };
}

/** If none of the first examples has a modifiable word, the substitutions do not fit the texts. */
const checkedExamples = 200;

/** Yields results as soon as one of them had a modifiable word. */
async function* requireModifiableWords(results: AsyncIterable<AttackResult>): AsyncGenerator<AttackResult> {
  const waiting: AttackResult[] = [];
  let isModifiable = false;
  for await (const result of results) {
    isModifiable ||= result.space.modifiableWords > 0;
    waiting.push(result);
    if (isModifiable) yield* waiting.splice(0);
    else if (waiting.length === checkedExamples) break;
  }
  if (waiting.length > 0)
    throw new UserError(
      `attack: no word of ${waiting.length} examples has a substitute. Check the language of the substitutions, and ` +
        "the constraints.",
    );
}
