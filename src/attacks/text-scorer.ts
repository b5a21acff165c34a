import { UserError } from "../base/errors.js";
import { createScore, logitMargin, type Score } from "./goals/score.js";
import type { ScoreUse } from "./run-recipe.js";
import { computeContentKey, ScoreCache } from "./score-cache.js";
import type { PreparedInput, Victim } from "./victim.js";

/** A text whose score a search requests. */
export interface ScoreRequest<Prepared extends PreparedInput> {
  readonly prepared: Prepared;
  /** The key of its content. */
  readonly key: string;
  /** The gold label of the search. */
  readonly label: number;
  readonly use: ScoreUse;
}

/**
 * Scores texts and remembers the scores by content. If the victim computes in low precision, its
 * float32 counterpart decides: it scores everything that is recorded, and again what may end the
 * search and is misclassified or nearly so. So the answer is a function of the text, its label and
 * its use, whatever is cached.
 */
export class TextScorer<Prepared extends PreparedInput> {
  readonly #cache: ScoreCache;
  readonly #exactCache: ScoreCache;

  constructor(
    readonly victim: Victim<Prepared>,
    caches: { readonly cache?: ScoreCache | undefined; readonly exactCache?: ScoreCache | undefined } = {},
    /** Maximum number of texts per call, if it is less than that of the victim. */
    readonly maxCallSize: number = Number.POSITIVE_INFINITY,
  ) {
    this.#cache = caches.cache ?? new ScoreCache(victim.numLabels);
    this.#exactCache = caches.exactCache ?? new ScoreCache(victim.numLabels);
  }

  /** Whether scores are stored in a file, for a later run. */
  get isStored(): boolean {
    return this.#cache.isStored;
  }

  createRequest(prepared: Prepared, label: number, use: ScoreUse): ScoreRequest<Prepared> {
    return { prepared, key: computeContentKey(prepared.content), label, use };
  }

  /** Requests with equal names have the same answer. */
  getName({ key, label, use }: ScoreRequest<Prepared>): string {
    return this.victim.exact ? `${key} ${use === "decision" ? label : use}` : key;
  }

  /** Returns the answer if it is known. */
  find(request: ScoreRequest<Prepared>): Float32Array | undefined {
    if (!this.victim.exact) return this.#cache.get(request.key);
    const low = request.use === "recorded" ? undefined : this.#cache.get(request.key);
    if (low && !this.#isUndecided(low, request)) return low;
    return low || request.use === "recorded" ? this.#exactCache.get(request.key) : undefined;
  }

  /**
   * Computes the answers of requests whose answers are not known, in their order. All are scored in
   * low precision before the first one is confirmed, so that confirmations fill batches, too.
   * `onCall` runs after each call of a victim, with the indices of its texts and their answers.
   */
  async score(
    requests: readonly ScoreRequest<Prepared>[],
    onCall: (answers: ReadonlyMap<number, Float32Array>) => void,
  ): Promise<Float32Array[]> {
    const { exact } = this.victim;
    const isExact = ({ use }: ScoreRequest<Prepared>): boolean => exact !== undefined && use === "recorded";
    const answers = requests.map((request) => (exact && !isExact(request) ? this.#cache.get(request.key) : undefined));
    const compute = async (
      victim: Victim<Prepared>,
      cache: ScoreCache,
      isChosen: (request: ScoreRequest<Prepared>, index: number) => boolean,
    ): Promise<void> => {
      // The same text may be requested for different uses.
      const byKey = new Map<string, number[]>();
      for (const [i, request] of requests.entries())
        if (isChosen(request, i)) byKey.set(request.key, [...(byKey.get(request.key) ?? []), i]);
      const getFirst = ([first]: readonly number[]): Prepared => requests[first!]!.prepared;
      for (const call of splitIntoCalls(
        [...byKey.values()],
        (same) => getFirst(same).length,
        victim,
        this.maxCallSize,
      )) {
        const inputs = call.map(getFirst);
        const rows = await callVictim(victim, inputs);
        const found = new Map<number, Float32Array>();
        call.forEach((same, row) => {
          cache.set(requests[same[0]!]!.key, rows[row]!);
          for (const i of same) {
            answers[i] = rows[row]!;
            found.set(i, rows[row]!);
          }
        });
        onCall(found);
      }
    };
    const isUnknown = (i: number): boolean => answers[i] === undefined;
    await compute(this.victim, this.#cache, (request, i) => isUnknown(i) && !isExact(request));
    if (exact) {
      for (const [i, request] of requests.entries())
        if (isUnknown(i) || this.#isUndecided(answers[i]!, request)) answers[i] = this.#exactCache.get(request.key);
      await compute(exact, this.#exactCache, (_, i) => isUnknown(i));
    }
    return answers as Float32Array[];
  }

  /** Whether float32 may misclassify a text with these probabilities in low precision. */
  #isUndecided(row: Float32Array, { label, use }: ScoreRequest<Prepared>): boolean {
    return use === "decision" && isUndecided(this.victim, this.toScore(row), label);
  }

  /** The score of a row, which has logits if the victim knows them. */
  toScore(row: Float32Array): Score {
    return createScore(row, this.victim.logits !== undefined);
  }

  /** Writes new scores to disk. */
  flush(): void {
    this.#exactCache.flush();
    this.#cache.flush();
  }
}

/** Whether float32 may misclassify a text with this score of a victim in low precision. */
export function isUndecided(
  { decidedMargin = Number.POSITIVE_INFINITY }: Victim,
  score: Score,
  label: number,
): boolean {
  return logitMargin(score, label) < decidedMargin;
}

/** Splits texts into calls of the victim: a call takes as many in a row as the victim accepts. */
export function* splitIntoCalls<T>(
  texts: readonly T[],
  getLength: (text: T) => number,
  { maxBatchSize, maxBatchTokens = Number.POSITIVE_INFINITY }: Victim,
  maxCallSize = Number.POSITIVE_INFINITY,
): Generator<T[]> {
  const maxTexts = Math.min(maxBatchSize, maxCallSize);
  let call: T[] = [];
  let tokens = 0;
  for (const text of texts) {
    const length = getLength(text);
    if (call.length > 0 && (call.length === maxTexts || tokens + length > maxBatchTokens)) {
      yield call;
      call = [];
      tokens = 0;
    }
    call.push(text);
    tokens += length;
  }
  if (call.length > 0) yield call;
}

/** Scores texts in one call: rows of logits if the victim knows them, otherwise of probabilities. */
export async function callVictim<Prepared extends PreparedInput>(
  victim: Victim<Prepared>,
  inputs: readonly Prepared[],
): Promise<Float32Array[]> {
  const rows = await (victim.logits?.(inputs) ?? victim.probabilities(inputs));
  checkRows(rows, inputs.length, victim);
  return rows;
}

function checkRows(rows: readonly Float32Array[], count: number, { name, numLabels }: Victim): void {
  if (rows.length !== count)
    throw new UserError(`${name}: expected ${count} rows of probabilities, received ${rows.length}`);
  const invalid = rows.find((row) => row.length !== numLabels || row.some((value) => !Number.isFinite(value)));
  if (!invalid) return;
  const received = [...invalid].slice(0, 8).join(", ");
  throw new UserError(`${name}: expected ${numLabels} finite probabilities per text, received [${received}]`);
}
