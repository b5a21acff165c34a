import { UserError } from "../errors.js";
import { Rng } from "../tensor/random.js";
import type { Attack } from "./attack-definition.js";
import { runSearch } from "./attack-example.js";
import { type AttackExample, createInputBuilder } from "./attack-space.js";
import type { Attacker, AttackerRunOptions, QueryCounters } from "./attacker.js";
import type { AttackResult } from "./result.js";
import { computeContentKey, ScoreCache } from "./score-cache.js";
import type { Candidate, Score } from "./search.js";
import type { PreparedInput, Victim, VictimInput } from "./victim.js";

export interface SearchPoolOptions {
  /** Searches that run at once. */
  readonly concurrency?: number;
  /** Texts that are gathered, at most, before the victim is called: it bounds memory. */
  readonly maxPendingTexts?: number;
  /** Scores by content; shared between attacks on one victim. */
  readonly cache?: ScoreCache;
}

/** One running example: its generator, what it asks, and the answers so far. */
interface RunningSearch {
  readonly course: Generator<Candidate[], AttackResult, Score[]>;
  readonly toInput: (candidate: Candidate) => VictimInput;
  /** What this search has learnt already: it asks for the same texts again and again, and then they need not even be written out. */
  known: Map<string, KnownScore>;
  asked: Candidate[];
  answers: Score[];
  result?: AttackResult;
}

interface KnownScore {
  readonly score: Score;
  readonly length: number;
}

/** Candidates that a search remembers: a few generations of the genetic attack. */
const maxKnownScores = 4096;

/** A text that waits for the victim, and everyone who asked for it. */
interface PendingText<Ready> {
  readonly ready: Ready;
  readonly requesters: { readonly running: RunningSearch; readonly index: number; readonly name: string }[];
}

/**
 * Runs hundreds of searches at once over one victim. They go in waves of fixed size, a wave in rounds: each round gathers what all
 * searches ask, scores every distinct text once in batches of like length, and hands out the answers. A wave depends on nothing
 * but its examples, so a run that was cut off and resumed meets the same batches, and writes the same journal.
 */
export class SearchPool<Ready extends PreparedInput> {
  readonly counters: QueryCounters = { asked: 0, askedTokens: 0, forwarded: 0, forwardedTokens: 0 };
  readonly #searches: number;
  readonly #limit: number;
  readonly #cache: ScoreCache;

  constructor(
    readonly victim: Victim<Ready>,
    options: SearchPoolOptions = {},
  ) {
    this.#searches = options.concurrency ?? 256;
    this.#limit = options.maxPendingTexts ?? 8192;
    this.#cache = options.cache ?? new ScoreCache(victim.numLabels);
  }

  /** Attacks every target; results come in the targets' order, as soon as those before them are there. */
  async *run(
    targets: Iterable<AttackExample> | AsyncIterable<AttackExample>,
    attack: Attack,
    options: AttackerRunOptions,
  ): AsyncGenerator<AttackResult> {
    const seeds = new Rng(options.seed).fork("attack", attack.name);
    const skip = options.skip ?? 0;
    let index = 0;
    for await (const wave of splitIntoChunks(targets, this.#searches)) {
      const first = index;
      index += wave.length;
      if (index <= skip) continue;
      const runnings = wave.map((target) => {
        const course = runSearch(target, attack, seeds.fork(target.id), this.victim.numLabels, options.budget);
        return {
          course,
          toInput: createInputBuilder(target),
          known: new Map(),
          asked: course.next().value as Candidate[],
          answers: [],
        };
      });
      let position = first;
      for await (const result of this.#wave(runnings)) if (position++ >= skip) yield result;
    }
  }

  async *#wave(runnings: RunningSearch[]): AsyncGenerator<AttackResult> {
    let reported = 0;
    while (reported < runnings.length) {
      await this.#round(runnings.filter((running) => running.result === undefined));
      // Only now, so that a run that is killed meets the same round again.
      this.#cache.flush();
      for (let next = runnings[reported]; next?.result !== undefined; next = runnings[++reported]) yield next.result;
    }
  }

  /** Every search gets one answer. */
  async #round(runnings: readonly RunningSearch[]): Promise<void> {
    let waiting = new Map<string, PendingText<Ready>>();
    for (const running of runnings) {
      this.#gather(running, waiting);
      if (waiting.size < this.#limit) continue;
      await this.#forward([...waiting.values()], [...waiting.keys()]);
      waiting = new Map();
    }
    await this.#forward([...waiting.values()], [...waiting.keys()]);
    for (const running of runnings) advanceSearch(running);
  }

  /** Answers what the cache knows and queues the rest, each distinct text once. */
  #gather(running: RunningSearch, waiting: Map<string, PendingText<Ready>>): void {
    running.answers = new Array<Score>(running.asked.length);
    if (running.known.size > maxKnownScores) running.known.clear();
    running.asked.forEach((candidate, index) => {
      this.counters.asked++;
      const name = getCandidateKey(candidate);
      const before = running.known.get(name);
      if (before) {
        this.counters.askedTokens += before.length;
        running.answers[index] = before.score;
        return;
      }
      const ready = this.victim.prepare(running.toInput(candidate));
      this.counters.askedTokens += ready.length;
      const key = computeContentKey(ready.content);
      const cached = this.#cache.get(key);
      if (cached) {
        recordScore(running, index, name, cached, ready.length);
        return;
      }
      const entry = waiting.get(key) ?? { ready, requesters: [] };
      entry.requesters.push({ running, index, name });
      waiting.set(key, entry);
    });
  }

  async #forward(entries: readonly PendingText<Ready>[], keys: readonly string[]): Promise<void> {
    const order = [...entries.keys()].sort((a, b) => entries[a]!.ready.length - entries[b]!.ready.length || a - b);
    for (let start = 0; start < order.length; start += this.victim.maxBatchSize) {
      const batch = order.slice(start, start + this.victim.maxBatchSize);
      const rows = await this.victim.probabilities(batch.map((i) => entries[i]!.ready));
      checkRows(rows, batch.length, this.victim);
      batch.forEach((entry, i) => {
        const { ready, requesters: askers } = entries[entry]!;
        this.counters.forwarded++;
        this.counters.forwardedTokens += ready.length;
        this.#cache.set(keys[entry]!, rows[i]!);
        for (const { running, index, name } of askers) recordScore(running, index, name, rows[i]!, ready.length);
      });
    }
  }
}

/** A search over a pool as an attacker. */
export function createPoolAttacker<Ready extends PreparedInput>(pool: SearchPool<Ready>, attack: Attack): Attacker {
  const { name, options, hasBudget: limited, source } = attack;
  return {
    name,
    options,
    hasBudget: limited,
    hashes: { ...pool.victim.hashes, ...(source !== undefined && { search: source }) },
    counters: pool.counters,
    run: (targets, settings) => pool.run(targets, attack, settings),
  };
}

function recordScore(
  running: RunningSearch,
  index: number,
  name: string,
  probabilities: Float32Array,
  length: number,
): void {
  const score = { probabilities };
  running.answers[index] = score;
  running.known.set(name, { score, length });
}

/** A candidate as a string: two characters a word, and which word is hidden. */
function getCandidateKey({ replacementIndices: picks, mask }: Candidate): string {
  return Buffer.from(picks.buffer, picks.byteOffset, picks.byteLength).toString("latin1") + (mask ?? "");
}

function advanceSearch(running: RunningSearch): void {
  const step = running.course.next(running.answers);
  if (step.done) {
    running.result = step.value;
    running.known.clear();
  } else running.asked = step.value;
}

function checkRows(rows: readonly Float32Array[], count: number, victim: Victim): void {
  if (rows.length !== count)
    throw new UserError(`${victim.name}: expected ${count} rows of probabilities, received ${rows.length}`);
  const wrong = rows.find((row) => row.length !== victim.numLabels || row.some((value) => !Number.isFinite(value)));
  if (wrong) {
    throw new UserError(
      `${victim.name}: expected ${victim.numLabels} finite probabilities a text, received [${[...wrong].slice(0, 8).join(", ")}]`,
    );
  }
}

/** Items in groups of a fixed size; the last may be smaller. */
export async function* splitIntoChunks<T>(items: Iterable<T> | AsyncIterable<T>, size: number): AsyncGenerator<T[]> {
  let chunk: T[] = [];
  for await (const item of items) {
    chunk.push(item);
    if (chunk.length < size) continue;
    yield chunk;
    chunk = [];
  }
  if (chunk.length > 0) yield chunk;
}
