import { isTurnDue, stopIfAborted, takeTurn } from "../base/event-loop.js";
import { groupBy } from "../base/group-by.js";
import { Rng } from "../base/rng.js";
import type { Accuracy, Identified, Predictor, PreparedText } from "../models/inference/predictor.js";
import type { Score } from "../models/inference/score.js";
import { rememberAnswers, ScoreCache } from "../models/inference/score-cache.js";
import type { Example } from "../tasks/example.js";
import { findWordPlaces, type WordFinder } from "../text/find-words.js";
import type { ReadyAttack } from "./define-attack.js";
import { EditedText } from "./edited-text.js";
import { computeMaxQueries, type QueryBudget, type RunOptions, type ScoredCandidate } from "./protocol.js";
import { computeAndCount, createCounters, type QueryCounters } from "./query-counters.js";
import { answerTogether, type ResourceRequest } from "./requests.js";
import type { AttackResult } from "./result.js";
import { getReadText, type Query, type RecipeGenerator, runRecipe } from "./run-recipe.js";
import { type AbleVictim, prepareTexts } from "./victim.js";

export interface SearchPoolOptions {
  /** Number of searches that may run concurrently. */
  readonly concurrency?: number;
  /** Number of texts to collect before the victim is called. Default: two full calls. */
  readonly maxPendingTexts?: number;
  /** Number of texts per call of the victim, so that a search can be watched. Default: its own. */
  readonly maxCallSize?: number | undefined;
  /** Opens what remembers the scores of a predictor of the victim. Default: in memory. */
  openCache?(predictor: Pick<Predictor, "numLabels"> & Partial<Identified>): ScoreCache;
}

/** The search on one example, with the scores received so far. */
interface RunningSearch {
  readonly id: string;
  readonly label: number;
  readonly generator: RecipeGenerator<AttackResult>;
  queries: readonly Query[];
  scores: Score[];
  /** A request to a resource that must be answered before the search has texts to score. */
  request?: ResourceRequest | undefined;
  result?: AttackResult;
}

/** A text that waits for the victim, the search that requested it, and its index in the queries of the search. */
interface PendingText {
  readonly running: RunningSearch;
  readonly index: number;
  readonly prepared: PreparedText;
  readonly accuracy: Accuracy;
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
 * const attack = equipAttack(deepwordbug(), { labels: ["ham", "spam"] });
 * for await (const result of pool.run(examples, attack, { seed: 0 })) console.log(result.outcome);
 */
export class SearchPool implements Disposable {
  readonly counters = createCounters();
  readonly #concurrency: number;
  readonly #maxPendingTexts: number;
  readonly #maxCallSize: number | undefined;
  readonly #predictor: Predictor;
  readonly #caches: ScoreCache[] = [];
  #flushed = performance.now();

  constructor(
    readonly victim: AbleVictim,
    options: SearchPoolOptions = {},
  ) {
    this.#concurrency = options.concurrency ?? 256;
    this.#maxPendingTexts = options.maxPendingTexts ?? 2 * victim.callLimits.maxTexts;
    this.#maxCallSize = options.maxCallSize;
    const { openCache = ({ numLabels }) => new ScoreCache(numLabels) } = options;
    const remember = (predictor: Predictor & Partial<Identified>): Predictor => {
      const cache = openCache(predictor);
      this.#caches.push(cache);
      return rememberAnswers(predictor, cache);
    };
    this.#predictor = victim.wrapEach?.(remember) ?? remember(victim);
  }

  [Symbol.dispose](): void {
    for (const cache of this.#caches) cache.close();
  }

  /** Attacks every example and yields the results in order. */
  async *run(
    examples: Iterable<Example> | AsyncIterable<Example>,
    attack: ReadyAttack,
    options: RunOptions,
  ): AsyncGenerator<AttackResult> {
    const { seed, skip = 0, budget } = options;
    const { recipe } = attack;
    if ("runAll" in recipe.search) return yield* recipe.search.runAll(recipe, examples, options, this.counters);
    const rng = new Rng(seed).fork("attack", attack.name);
    // Stored scores repeat the finished searches of a wave at no cost, and its batches stay the
    // same. Without them, only the unfinished examples run.
    const isStored = this.#caches[0]!.isStored;
    const remaining = isStored ? examples : dropFirst(examples, skip);
    let position = isStored ? 0 : skip;
    for await (const wave of splitIntoChunks(remaining, this.#concurrency)) {
      if (position + wave.length <= skip) {
        position += wave.length;
        continue;
      }
      const searches = wave.map((example) => this.#start(example, attack, rng.fork(example.id), budget));
      for await (const result of this.#runWave(searches, options)) if (position++ >= skip) yield result;
    }
  }

  #start(example: Example, attack: ReadyAttack, rng: Rng, budget: QueryBudget | undefined): RunningSearch {
    const text = EditedText.create(example.texts, this.#chooseWordFinder(attack));
    const generator = runRecipe(example, text, attack, rng, computeMaxQueries(budget, text.length), isTurnDue);
    // The first step of every attack scores the original text.
    const queries = generator.next([]).value as readonly Query[];
    return { id: example.id, label: example.label, generator, queries, scores: [] };
  }

  #chooseWordFinder({ recipe }: ReadyAttack): WordFinder {
    const { findWords = findWordPlaces, findAllWords = findWords } = this.victim;
    return recipe.changesAllWords ? findAllWords : findWords;
  }

  async *#runWave(searches: RunningSearch[], options: RunOptions): AsyncGenerator<AttackResult> {
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
  async #runRound(searches: readonly RunningSearch[], options: RunOptions): Promise<void> {
    const pending: PendingText[] = [];
    const { maxTokens = Number.POSITIVE_INFINITY } = this.victim.callLimits;
    let [count, tokens] = [0, 0];
    while (count < searches.length && pending.length < this.#maxPendingTexts && tokens < 2 * maxTokens) {
      const next = searches[count++]!;
      if (next.request) await answerRequests(selectRequesting(searches, count - 1), this.counters, options);
      for (const each of this.#collect(next)) {
        pending.push(each);
        tokens += each.prepared.length;
      }
    }
    await this.#score(pending, options);
    for (const running of searches.slice(0, count))
      if (running.result === undefined) await advanceSearch(running, running.scores, options);
  }

  #collect(running: RunningSearch): PendingText[] {
    if (running.result !== undefined) return [];
    const { queries } = running;
    running.scores = new Array<Score>(queries.length);
    this.counters.queries += queries.length;
    const { unkToken } = this.victim;
    const all = prepareTexts(
      this.victim,
      queries.map((query) => getReadText(query, unkToken)),
    );
    return all.map((prepared, index) => {
      this.counters.queryTokens += prepared.length;
      return { running, index, prepared, accuracy: queries[index]!.accuracy };
    });
  }

  /** Scores the pending texts, shortest first. */
  async #score(pending: PendingText[], { onScores, signal }: RunOptions): Promise<void> {
    // Sorting is stable, so texts of equal length stay in the order of the queue.
    pending.sort((a, b) => a.prepared.length - b.prepared.length);
    const counted = new Set<number>();
    const scores = await this.#predictor.predict(
      pending.map(({ prepared }) => prepared),
      {
        getAccuracy: (i) => pending[i]!.accuracy,
        ...(this.#maxCallSize !== undefined && { maxCallSize: this.#maxCallSize }),
        onCall: (answers) => {
          // A text that is computed again, to be exact, does not count twice.
          const lengths = new Map<Score, number>();
          for (const [i, score] of answers) if (!counted.has(i)) lengths.set(score, pending[i]!.prepared.length);
          for (const i of answers.keys()) counted.add(i);
          this.counters.evaluations += lengths.size;
          for (const length of lengths.values()) this.counters.evaluatedTokens += length;
          if (performance.now() - this.#flushed > flushMilliseconds) this.#flush();
          if (onScores) for (const [id, scored] of groupScores(pending, answers)) onScores(id, scored);
          stopIfAborted(signal);
        },
      },
    );
    for (const [i, { running, index }] of pending.entries()) running.scores[index] = scores[i]!;
  }

  #flush(): void {
    for (const cache of this.#caches) cache.flush();
    this.#flushed = performance.now();
  }
}

/** The texts of one call of the victim by example. */
function groupScores(
  pending: readonly PendingText[],
  answers: ReadonlyMap<number, Score>,
): ReadonlyMap<string, readonly ScoredCandidate[]> {
  const byExample = groupBy([...answers], ([i]) => pending[i]!.running);
  return new Map(
    [...byExample].map(([{ id, queries }, own]) => [
      id,
      own.map(([i, { probabilities }]) => ({ ...queries[pending[i]!.index]!, probabilities })),
    ]),
  );
}

/**
 * Runs a search until it needs something. If its candidates take long to create, or if all their scores are known, only
 * these turns let a signal stop it.
 */
async function advanceSearch(
  running: RunningSearch,
  answer: readonly unknown[],
  { signal }: RunOptions,
): Promise<void> {
  let step = running.generator.next(answer);
  while (!step.done && Array.isArray(step.value) && step.value.length === 0) {
    await takeTurn(signal);
    step = running.generator.next([]);
  }
  if (isTurnDue()) await takeTurn(signal);
  running.request = undefined;
  if (step.done) running.result = step.value;
  else if (Array.isArray(step.value)) running.queries = step.value as readonly Query[];
  else running.request = step.value as ResourceRequest;
}

/** A call of a resource with this many inputs is a full one. */
const fullRequest = 2048;

/**
 * The next searches that wait for a resource, enough for a full call. Later ones wait until the victim needs their texts,
 * so that the first texts are scored soon.
 */
function selectRequesting(searches: readonly RunningSearch[], start: number): RunningSearch[] {
  const chosen: RunningSearch[] = [];
  let inputs = 0;
  for (let i = start; i < searches.length && inputs < fullRequest; i++) {
    const { request } = searches[i]!;
    if (!request) continue;
    chosen.push(searches[i]!);
    inputs += request.inputs.length;
  }
  return chosen;
}

/**
 * Answers the requests of some searches, until each has texts for the victim. The inputs of these
 * searches for the same resource are one call.
 */
async function answerRequests(
  searches: readonly RunningSearch[],
  counters: QueryCounters,
  options: RunOptions,
): Promise<void> {
  for (;;) {
    const waiting = searches.filter(({ request }) => request !== undefined);
    if (waiting.length === 0) return;
    await answerTogether(
      waiting.map((running) => ({
        ...running.request!,
        answer: (outputs: readonly unknown[]) => advanceSearch(running, outputs, options),
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
