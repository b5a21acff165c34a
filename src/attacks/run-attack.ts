import { readFile, rm } from "node:fs/promises";
import { z } from "zod";
import { UserError } from "../errors.js";
import { writeFileAtomic } from "../files.js";
import type { AttackExample } from "./attack-space.js";
import type { Attacker, QueryCounters } from "./attacker.js";
import { type JournalHeader, JournalWriter } from "./journal.js";
import type { AttackResult } from "./result.js";
import { modifiablePositions } from "./search.js";

/** What a run cost. It depends on batches and caches, so it lives beside the journal, never in it. */
export interface AttackTiming extends QueryCounters {
  seconds: number;
}

const timingSchema = z.object({
  seconds: z.number(),
  asked: z.number(),
  askedTokens: z.number(),
  forwarded: z.number(),
  forwardedTokens: z.number(),
});
const zeroTiming: AttackTiming = { seconds: 0, asked: 0, askedTokens: 0, forwarded: 0, forwardedTokens: 0 };

export interface RunAttackOptions {
  readonly attacker: Attacker;
  /** The examples in order; lazily made, so that memory does not grow with them. */
  readonly attackExamples: Iterable<AttackExample> | AsyncIterable<AttackExample>;
  readonly numExamples: number;
  readonly seed: number | string;
  /** The most queries an example may cost. */
  readonly budget?: number;
  /** Hashes of all that decides the space beside the victim's own ({ substitutions, languageModel }). */
  readonly hashes: Readonly<Record<string, string>>;
  /** Whatever else decides the results (task, split, constraints). */
  readonly settings: Readonly<Record<string, unknown>>;
  /** Path of the journal. */
  readonly journalPath: string;
  readonly resume?: boolean;
  /** Told before the first example how many are done already. */
  onStart?(done: number): void;
  onResult?(result: AttackResult, done: number): void;
}

/** Runs one attack over all examples into its journal, continuing where a killed run stopped. */
export async function runAttack(run: RunAttackOptions): Promise<void> {
  const { attacker } = run;
  const header: JournalHeader = {
    attack: attacker.name,
    options: attacker.options,
    hashes: { ...attacker.hashes, ...run.hashes },
    settings: { ...run.settings, limited: attacker.hasBudget, ...(run.budget !== undefined && { budget: run.budget }) },
    seed: run.seed,
    examples: run.numExamples,
  };
  const journal = await JournalWriter.open(run.journalPath, header, { resume: run.resume ?? false });
  const before = run.resume ? await readTiming(run.journalPath) : zeroTiming;
  const start = { ...attacker.counters };
  const started = performance.now();
  const saveTiming = () =>
    writeFileAtomic(
      getTimingPath(run.journalPath),
      `${JSON.stringify(addTiming(before, start, attacker.counters, started))}\n`,
    );
  let saved = started;
  let done = journal.count;
  try {
    run.onStart?.(done);
    if (done === run.numExamples) return;
    const options = { seed: run.seed, skip: done, ...(run.budget !== undefined && { budget: run.budget }) };
    for await (const result of attacker.run(requireModifiableWords(run.attackExamples), options)) {
      journal.append(result);
      run.onResult?.(result, ++done);
      if (performance.now() - saved < 5000) continue;
      await saveTiming();
      saved = performance.now();
    }
    await saveTiming();
  } catch (error) {
    // Without a result there is nothing to go on from, and a journal would stand in the next try's way.
    if (done === 0) await rm(run.journalPath, { force: true });
    throw error;
  } finally {
    journal.close();
  }
}

function getTimingPath(journal: string): string {
  return `${journal.replace(/\.jsonl$/, "")}.timing.json`;
}

/** What the runs of a journal cost together; nothing where that was never written. */
export async function readTiming(journal: string): Promise<AttackTiming> {
  const text = await readFile(getTimingPath(journal), "utf8").catch(() => undefined);
  if (text === undefined) return zeroTiming;
  try {
    return timingSchema.parse(JSON.parse(text));
  } catch {
    return zeroTiming;
  }
}

function addTiming(before: AttackTiming, start: QueryCounters, now: QueryCounters, started: number): AttackTiming {
  return {
    seconds: before.seconds + (performance.now() - started) / 1000,
    asked: before.asked + now.asked - start.asked,
    askedTokens: before.askedTokens + now.askedTokens - start.askedTokens,
    forwarded: before.forwarded + now.forwarded - start.forwarded,
    forwardedTokens: before.forwardedTokens + now.forwardedTokens - start.forwardedTokens,
  };
}

/** Examples without a single open word among the first show a table that does not fit the texts: better said before the work. */
const checkedExamples = 200;

async function* requireModifiableWords(
  targets: Iterable<AttackExample> | AsyncIterable<AttackExample>,
): AsyncGenerator<AttackExample> {
  let count = 0;
  let open = 0;
  const check = () => {
    if (open > 0 || count === 0) return;
    throw new UserError(
      `attack: none of the words of ${count} examples has a substitute; check that the substitution table fits the texts' language, and the constraints`,
    );
  };
  for await (const target of targets) {
    count++;
    open += modifiablePositions(target).length;
    if (count === checkedExamples) check();
    yield target;
  }
  check();
}
