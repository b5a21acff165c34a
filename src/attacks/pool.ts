import { UserError } from "../errors.js";
import { Rng } from "../tensor/random.js";
import { type AttackExample, createInputBuilder } from "./attack-space.js";
import type { AttackResult } from "./result.js";
import { type Attacker, type AttackerRunOptions, createCounters } from "./run-attack.js";
import { computeContentKey, ScoreCache } from "./score-cache.js";
import { type Attack, type Candidate, type CandidateGenerator, runSearch, type Score } from "./search.js";
import type { PreparedInput, Victim, VictimInput } from "./victim.js";

export interface SearchPoolOptions {
  /** Number of concurrent searches. */
  readonly concurrency?: number;
  /** Maximum number of texts to collect before the victim is called. It bounds memory. */
  readonly maxPendingTexts?: number;
  /** Scores by content. Attacks on the same victim can use the same cache. */
  readonly cache?: ScoreCache;
}

/** The search on one example, with the scores received so far. */
interface RunningSearch {
  readonly generator: CandidateGenerator<AttackResult>;
  readonly toInput: (candidate: Candidate) => VictimInput;
  /** Scores of this search. It often repeats a query, which then needs no rendering. */
  readonly known: Map<string, { readonly score: Score; readonly length: number }>;
  candidates: Candidate[];
  scores: Score[];
  result?: AttackResult;
}

/** Candidates that a search remembers: a few generations of the genetic attack. */
const maxKnownScores = 4096;

/** A candidate of a search: its index in `candidates` and its name in `known`. */
interface Requester {
  readonly running: RunningSearch;
  readonly index: number;
  readonly name: string;
}

/** A text that waits for the victim, and the searches that requested it. */
interface PendingText<Prepared> {
  readonly prepared: Prepared;
  readonly requesters: Requester[];
}

/**
 * Runs hundreds of searches concurrently against one victim. Searches run in waves of fixed size,
 * and each wave runs in rounds. A round collects the candidates of all searches, scores every
 * distinct text once in batches of similar length, and returns the scores. A wave depends only on
 * its examples, so a resumed run forms the same batches and writes the same journal.
 *
 * @example
 * const pool = new SearchPool(await connectHttpVictim("http://127.0.0.1:8080/predict"));
 * const attack = await loadAttack("pwws");
 * for await (const result of pool.run(examples, attack, { seed: 0 })) console.log(result.outcome);
 */
export class SearchPool<Prepared extends PreparedInput> {
  readonly counters = createCounters();
  readonly #concurrency: number;
  readonly #maxPendingTexts: number;
  readonly #cache: ScoreCache;

  constructor(
    readonly victim: Victim<Prepared>,
    options: SearchPoolOptions = {},
  ) {
    this.#concurrency = options.concurrency ?? 256;
    this.#maxPendingTexts = options.maxPendingTexts ?? 8192;
    this.#cache = options.cache ?? new ScoreCache(victim.numLabels);
  }

  /** Attacks every example and yields the results in order. */
  async *run(
    examples: Iterable<AttackExample> | AsyncIterable<AttackExample>,
    attack: Attack,
    options: AttackerRunOptions,
  ): AsyncGenerator<AttackResult> {
    const { seed, skip = 0, budget } = options;
    const rng = new Rng(seed).fork("attack", attack.name);
    let end = 0;
    for await (const wave of splitIntoChunks(examples, this.#concurrency)) {
      let position = end;
      end += wave.length;
      if (end <= skip) continue;
      const searches = wave.map((example): RunningSearch => {
        const generator = runSearch(example, attack, rng.fork(example.id), this.victim.numLabels, budget);
        const candidates = generator.next().value as Candidate[];
        return { generator, toInput: createInputBuilder(example), known: new Map(), candidates, scores: [] };
      });
      for await (const result of this.#runWave(searches)) if (position++ >= skip) yield result;
    }
  }

  async *#runWave(searches: RunningSearch[]): AsyncGenerator<AttackResult> {
    let reported = 0;
    while (reported < searches.length) {
      await this.#runRound(searches.filter((running) => running.result === undefined));
      // Flushing after the round makes a killed run repeat the same round.
      this.#cache.flush();
      for (let next = searches[reported]; next?.result !== undefined; next = searches[++reported]) yield next.result;
    }
  }

  /** Scores the current candidates of every search and advances it by one step. */
  async #runRound(searches: readonly RunningSearch[]): Promise<void> {
    const pending = new Map<string, PendingText<Prepared>>();
    for (const running of searches) {
      this.#collect(running, pending);
      if (pending.size >= this.#maxPendingTexts) await this.#score(pending);
    }
    await this.#score(pending);
    for (const running of searches) advanceSearch(running);
  }

  /** Answers candidates from the caches and queues the others, each distinct text once. */
  #collect(running: RunningSearch, pending: Map<string, PendingText<Prepared>>): void {
    running.scores = new Array<Score>(running.candidates.length);
    if (running.known.size > maxKnownScores) running.known.clear();
    running.candidates.forEach((candidate, index) => {
      this.counters.queries++;
      const name = getCandidateKey(candidate);
      const known = running.known.get(name);
      if (known) {
        this.counters.queryTokens += known.length;
        running.scores[index] = known.score;
        return;
      }
      const prepared = this.victim.prepare(running.toInput(candidate));
      this.counters.queryTokens += prepared.length;
      const key = computeContentKey(prepared.content);
      const cached = this.#cache.get(key);
      if (cached) {
        recordScore({ running, index, name }, cached, prepared.length);
        return;
      }
      const entry = pending.get(key) ?? { prepared, requesters: [] };
      entry.requesters.push({ running, index, name });
      pending.set(key, entry);
    });
  }

  /** Scores the pending texts, shortest first, and empties the queue. */
  async #score(pending: Map<string, PendingText<Prepared>>): Promise<void> {
    // Sorting is stable, so texts of equal length stay in the order of the queue.
    const entries = [...pending].sort(([, a], [, b]) => a.prepared.length - b.prepared.length);
    pending.clear();
    for (let start = 0; start < entries.length; start += this.victim.maxBatchSize) {
      const batch = entries.slice(start, start + this.victim.maxBatchSize);
      const rows = await this.victim.probabilities(batch.map(([, { prepared }]) => prepared));
      checkRows(rows, batch.length, this.victim);
      batch.forEach(([key, { prepared, requesters }], i) => {
        this.counters.evaluations++;
        this.counters.evaluatedTokens += prepared.length;
        this.#cache.set(key, rows[i]!);
        for (const requester of requesters) recordScore(requester, rows[i]!, prepared.length);
      });
    }
  }
}

/** Creates an attacker that runs a search in a pool. */
export function createPoolAttacker<Prepared extends PreparedInput>(
  pool: SearchPool<Prepared>,
  attack: Attack,
): Attacker {
  const { name, options, hasBudget, source } = attack;
  return {
    name,
    options,
    hasBudget,
    hashes: { ...pool.victim.hashes, ...(source !== undefined && { search: source }) },
    counters: pool.counters,
    run: (examples, settings) => pool.run(examples, attack, settings),
  };
}

function recordScore({ running, index, name }: Requester, probabilities: Float32Array, length: number): void {
  const score = { probabilities };
  running.scores[index] = score;
  running.known.set(name, { score, length });
}

/** Returns a candidate as a string: two characters per word, then the masked position and word. */
function getCandidateKey({ replacementIndices, mask, maskWord }: Candidate): string {
  const { buffer, byteOffset, byteLength } = replacementIndices;
  return `${Buffer.from(buffer, byteOffset, byteLength).toString("latin1")}${mask ?? ""}${maskWord ?? ""}`;
}

function advanceSearch(running: RunningSearch): void {
  const step = running.generator.next(running.scores);
  if (step.done) {
    running.result = step.value;
    running.known.clear();
  } else running.candidates = step.value;
}

function checkRows(rows: readonly Float32Array[], count: number, { name, numLabels }: Victim): void {
  if (rows.length !== count)
    throw new UserError(`${name}: expected ${count} rows of probabilities, received ${rows.length}`);
  const invalid = rows.find((row) => row.length !== numLabels || row.some((value) => !Number.isFinite(value)));
  if (!invalid) return;
  const received = [...invalid].slice(0, 8).join(", ");
  throw new UserError(`${name}: expected ${numLabels} finite probabilities per text, received [${received}]`);
}

/** Yields items in groups of a fixed size. The last group may be smaller. */
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
