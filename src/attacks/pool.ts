import { Rng } from "../base/rng.js";
import type { Example } from "../tasks/example.js";
import { findWordPlaces, type WordFinder } from "../text/find-words.js";
import {
  type Attacker,
  type AttackerRunOptions,
  computeMaxQueries,
  type QueryBudget,
  type ScoredCandidate,
} from "./attacker.js";
import { EditedText } from "./edited-text.js";
import type { Score } from "./goals/score.js";
import { computeAndCount, createCounters, type QueryCounters } from "./query-counters.js";
import { answerTogether, type ResourceRequest } from "./requests.js";
import type { AttackResult } from "./result.js";
import { type Query, type RecipeAttack, type RecipeGenerator, runRecipe } from "./run-recipe.js";
import { computeContentKey, type ScoreCache } from "./score-cache.js";
import { type ScoreRequest, TextScorer } from "./text-scorer.js";
import type { PreparedInput, Victim } from "./victim.js";
import { createVictimInput } from "./victim-input.js";

export interface SearchPoolOptions {
  /** Number of searches that may run concurrently. */
  readonly concurrency?: number;
  /** Number of texts to collect before the victim is called. Default: two full calls. */
  readonly maxPendingTexts?: number;
  /** Number of texts per call of the victim, so that a search can be watched. Default: its own. */
  readonly maxCallSize?: number | undefined;
  /** Scores by content. Attacks on the same victim can use the same cache. */
  readonly cache?: ScoreCache;
  /** Scores of the victim in float32, if it computes in low precision. */
  readonly exactCache?: ScoreCache;
}

/** The search on one example, with the scores received so far. */
interface RunningSearch {
  readonly id: string;
  readonly label: number;
  readonly generator: RecipeGenerator<AttackResult>;
  /** Scores of this search. It often repeats a query, which then needs no rendering. */
  readonly known: Map<string, { readonly score: Score; readonly length: number }>;
  queries: readonly Query[];
  scores: Score[];
  /** What the search needs from a resource before it has texts to score. */
  request?: ResourceRequest | undefined;
  result?: AttackResult;
}

/** Candidates that a search remembers: a few generations of the genetic attack. */
const maxKnownScores = 4096;

/** A query of a search: its index in `queries` and its name in `known`. */
interface Requester {
  readonly running: RunningSearch;
  readonly index: number;
  readonly name: string;
}

/** A text that waits for the victim, and the searches that requested it. */
interface PendingText<Prepared extends PreparedInput> {
  readonly request: ScoreRequest<Prepared>;
  readonly requesters: Requester[];
}

/** New scores wait at most this long, plus one call of the victim, before they are on disk. */
const flushMilliseconds = 1000;

/**
 * Runs many searches concurrently against one victim. Searches run in waves of fixed size, and each
 * wave runs in rounds. A round collects candidates from the first unfinished searches until the
 * batches are full, scores every distinct text once in batches of similar length, and returns the
 * scores. Early examples thus finish early, and later ones only fill the batches.
 *
 * A killed run can be repeated exactly, because its batches depend only on the examples of the
 * wave: how much a round collects does not depend on the cache, texts are scored in a fixed order,
 * and scores are saved only between calls. What is left of a round forms the same batches again.
 *
 * @example
 * const pool = new SearchPool(await connectHttpVictim("http://127.0.0.1:8080/predict"));
 * const attack = createRecipeAttack(deepwordbug(), { labels: ["ham", "spam"] });
 * for await (const result of pool.run(examples, attack, { seed: 0 })) console.log(result.outcome);
 */
export class SearchPool<Prepared extends PreparedInput> {
  readonly counters = createCounters();
  readonly #concurrency: number;
  readonly #maxPendingTexts: number;
  readonly #scorer: TextScorer<Prepared>;
  #flushed = performance.now();

  constructor(
    readonly victim: Victim<Prepared>,
    options: SearchPoolOptions = {},
  ) {
    this.#concurrency = options.concurrency ?? 256;
    this.#maxPendingTexts = options.maxPendingTexts ?? 2 * victim.maxBatchSize;
    this.#scorer = new TextScorer(victim, options, options.maxCallSize);
  }

  /** Attacks every example and yields the results in order. */
  async *run(
    examples: Iterable<Example> | AsyncIterable<Example>,
    attack: RecipeAttack,
    options: AttackerRunOptions,
  ): AsyncGenerator<AttackResult> {
    const { seed, skip = 0, budget } = options;
    const rng = new Rng(seed).fork("attack", attack.name);
    // Stored scores repeat the finished searches of a wave at no cost, and its batches stay the
    // same. Without them, only the unfinished examples run.
    const remaining = this.#scorer.isStored ? examples : dropFirst(examples, skip);
    let position = this.#scorer.isStored ? 0 : skip;
    for await (const wave of splitIntoChunks(remaining, this.#concurrency)) {
      if (position + wave.length <= skip) {
        position += wave.length;
        continue;
      }
      const searches = wave.map((example) => this.#start(example, attack, rng.fork(example.id), budget));
      for await (const result of this.#runWave(searches, options)) if (position++ >= skip) yield result;
    }
  }

  #start(example: Example, attack: RecipeAttack, rng: Rng, budget: QueryBudget | undefined): RunningSearch {
    const text = EditedText.create(example.texts, this.#chooseWordFinder(attack));
    const generator = runRecipe(example, text, attack, rng, computeMaxQueries(budget, text.length));
    // The first step of every attack scores the original text.
    const queries = generator.next([]).value as readonly Query[];
    return { id: example.id, label: example.label, generator, known: new Map(), queries, scores: [] };
  }

  #chooseWordFinder({ recipe }: RecipeAttack): WordFinder {
    const { findWords = findWordPlaces, findAllWords = findWords } = this.victim;
    return recipe.changesAllWords ? findAllWords : findWords;
  }

  async *#runWave(searches: RunningSearch[], options: AttackerRunOptions): AsyncGenerator<AttackResult> {
    let reported = 0;
    while (reported < searches.length) {
      await this.#runRound(
        searches.slice(reported).filter((running) => running.result === undefined),
        options,
      );
      for (let next = searches[reported]; next?.result !== undefined; next = searches[++reported]) yield next.result;
    }
    this.#flush();
  }

  /** Scores the candidates of the first searches, enough to fill the batches, and advances them. */
  async #runRound(searches: readonly RunningSearch[], options: AttackerRunOptions): Promise<void> {
    await answerRequests(searches, this.counters);
    const pending = new Map<string, PendingText<Prepared>>();
    const { maxBatchTokens = Number.POSITIVE_INFINITY } = this.victim;
    const collected = { texts: 0, tokens: 0 };
    let count = 0;
    while (count < searches.length && collected.texts < this.#maxPendingTexts && collected.tokens < 2 * maxBatchTokens)
      this.#collect(searches[count++]!, pending, collected);
    await this.#score(pending, options);
    for (const running of searches.slice(0, count))
      if (running.result === undefined) advanceSearch(running, running.scores);
  }

  /**
   * Answers candidates from the caches and queues the others, each distinct text once. What the
   * search does not know itself counts as collected.
   */
  #collect(
    running: RunningSearch,
    pending: Map<string, PendingText<Prepared>>,
    collected: { texts: number; tokens: number },
  ): void {
    if (running.result !== undefined) return;
    running.scores = new Array<Score>(running.queries.length);
    if (running.known.size > maxKnownScores) running.known.clear();
    const unknown: Omit<Requester, "running">[] = [];
    running.queries.forEach((query, index) => {
      this.counters.queries++;
      // In low precision, the score of the same text depends on its use.
      const name = `${getQueryKey(query)}${this.victim.exact ? ` ${query.use}` : ""}`;
      const known = running.known.get(name);
      if (known) {
        this.counters.queryTokens += known.length;
        running.scores[index] = known.score;
      } else unknown.push({ index, name });
    });
    const inputs = unknown.map(({ index }) => createVictimInput(running.queries[index]!));
    const all = this.victim.prepareAll?.(inputs) ?? inputs.map((input) => this.victim.prepare(input));
    unknown.forEach(({ index, name }, position) => {
      const prepared = all[position]!;
      this.counters.queryTokens += prepared.length;
      collected.texts++;
      collected.tokens += prepared.length;
      const request = this.#scorer.createRequest(prepared, running.label, running.queries[index]!.use);
      const cached = this.#scorer.find(request);
      if (cached) {
        recordScore({ running, index, name }, this.#scorer.toScore(cached), prepared.length);
        return;
      }
      const requestName = this.#scorer.getName(request);
      const entry = pending.get(requestName) ?? { request, requesters: [] };
      entry.requesters.push({ running, index, name });
      pending.set(requestName, entry);
    });
  }

  /** Scores the pending texts, shortest first. */
  async #score(
    pending: ReadonlyMap<string, PendingText<Prepared>>,
    { onScores, signal }: AttackerRunOptions,
  ): Promise<void> {
    // Sorting is stable, so texts of equal length stay in the order of the queue.
    const entries = [...pending.values()].sort((a, b) => a.request.prepared.length - b.request.prepared.length);
    const rows = await this.#scorer.score(
      entries.map(({ request }) => request),
      (answers) => {
        if (performance.now() - this.#flushed > flushMilliseconds) this.#flush();
        if (onScores) for (const [id, scored] of groupScores(entries, answers, this.#scorer)) onScores(id, scored);
        signal?.throwIfAborted();
      },
    );
    entries.forEach(({ request: { prepared }, requesters }, i) => {
      this.counters.evaluations++;
      this.counters.evaluatedTokens += prepared.length;
      const score = this.#scorer.toScore(rows[i]!);
      for (const requester of requesters) recordScore(requester, score, prepared.length);
    });
  }

  #flush(): void {
    this.#scorer.flush();
    this.#flushed = performance.now();
  }
}

/** Creates an attacker that runs a recipe in a pool. */
export function createPoolAttacker<Prepared extends PreparedInput>(
  pool: SearchPool<Prepared>,
  attack: RecipeAttack,
): Attacker {
  const { name, options, hasBudget, isWhiteBox, hashes } = attack;
  return {
    name,
    options,
    hasBudget,
    isWhiteBox,
    hashes: { ...pool.victim.hashes, ...hashes },
    counters: pool.counters,
    run: (examples, settings) => pool.run(examples, attack, settings),
  };
}

/** The texts of one call of the victim by example. */
function groupScores(
  entries: readonly PendingText<PreparedInput>[],
  answers: ReadonlyMap<number, Float32Array>,
  scorer: Pick<TextScorer<PreparedInput>, "toScore">,
): ReadonlyMap<string, readonly ScoredCandidate[]> {
  const groups = new Map<string, ScoredCandidate[]>();
  for (const [entry, row] of answers) {
    const { probabilities } = scorer.toScore(row);
    for (const { running, index } of entries[entry]!.requesters) {
      const { text, hidden } = running.queries[index]!;
      groups.set(running.id, [...(groups.get(running.id) ?? []), { text, hidden, probabilities }]);
    }
  }
  return groups;
}

function recordScore({ running, index, name }: Requester, score: Score, length: number): void {
  running.scores[index] = score;
  running.known.set(name, { score, length });
}

/** The key of a text with its hidden word, if it has one. */
function getQueryKey({ text, hidden }: Query): string {
  return computeContentKey([...text.texts, hidden ? JSON.stringify(hidden) : ""].join("\0"));
}

function advanceSearch(running: RunningSearch, answer: readonly unknown[]): void {
  const step = running.generator.next(answer as Score[]);
  running.request = undefined;
  if (step.done) {
    running.result = step.value;
    running.known.clear();
  } else if (Array.isArray(step.value)) running.queries = step.value as readonly Query[];
  else running.request = step.value as ResourceRequest;
}

/**
 * Answers the requests of all searches, until each has texts for the victim. The inputs of all
 * searches for the same resource are one call.
 */
async function answerRequests(searches: readonly RunningSearch[], counters: QueryCounters): Promise<void> {
  for (;;) {
    const waiting = searches.filter(({ request }) => request !== undefined);
    if (waiting.length === 0) return;
    await answerTogether(
      waiting.map((running) => ({
        ...running.request!,
        answer: (outputs: readonly unknown[]) => advanceSearch(running, outputs),
      })),
      (resource, inputs) => computeAndCount(resource, inputs, counters),
    );
  }
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

async function* dropFirst<T>(items: Iterable<T> | AsyncIterable<T>, count: number): AsyncGenerator<T> {
  let position = 0;
  for await (const item of items) if (position++ >= count) yield item;
}
