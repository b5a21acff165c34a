import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import { splitCalls } from "../models/inference/predict-in-calls.js";
import type { CallLimits, Predictor, PreparedText } from "../models/inference/predictor.js";
import type { Score } from "../models/inference/score.js";

interface WaitingCall {
  readonly client: string;
  readonly items: readonly PreparedText[];
  readonly tokens: number;
  resolve(answers: readonly Score[]): void;
  reject(error: unknown): void;
}

/**
 * Computes the calls of clients in turn. A batch takes one call of each client, again and again,
 * until the next one does not fit. A call that fails does not affect the others of its batch.
 */
class FairQueue {
  /** The client whose turn it is comes first. */
  readonly #waiting = new Map<string, WaitingCall[]>();
  #isBusy = false;

  constructor(
    readonly predict: (items: readonly PreparedText[]) => Promise<readonly Score[]>,
    readonly limits: CallLimits,
  ) {}

  run(items: readonly PreparedText[], client: string): Promise<readonly Score[]> {
    const tokens = items.reduce((sum, { length }) => sum + length, 0);
    return new Promise((resolve, reject) => {
      const call = { client, items, tokens, resolve, reject };
      const calls = this.#waiting.get(client);
      if (calls) calls.push(call);
      else this.#waiting.set(client, [call]);
      void this.#processQueue();
    });
  }

  async #processQueue(): Promise<void> {
    if (this.#isBusy) return;
    this.#isBusy = true;
    while (this.#waiting.size > 0) {
      // Calls that arrived together are computed together, and every batch lets other events happen.
      await yieldToEventLoop();
      const batch = this.#takeBatch();
      await this.#compute(batch);
      // Those who came meanwhile are next.
      for (const { client } of batch) this.#endTurn(client);
    }
    this.#isBusy = false;
  }

  async #compute(batch: readonly WaitingCall[]): Promise<void> {
    try {
      const answers = await this.predict(batch.flatMap(({ items }) => items));
      let start = 0;
      for (const { items, resolve } of batch) {
        resolve(answers.slice(start, start + items.length));
        start += items.length;
      }
    } catch (error) {
      if (batch.length === 1) batch[0]!.reject(error);
      else for (const call of batch) await this.#compute([call]);
    }
  }

  /** Takes at least one call. */
  #takeBatch(): WaitingCall[] {
    const { maxTexts, maxTokens = Number.POSITIVE_INFINITY } = this.limits;
    const batch: WaitingCall[] = [];
    let [texts, tokens] = [0, 0];
    for (;;) {
      const [turn] = this.#waiting;
      const call = turn?.[1][0];
      if (call === undefined) return batch;
      texts += call.items.length;
      tokens += call.tokens;
      if (batch.length > 0 && (texts > maxTexts || tokens > maxTokens)) return batch;
      batch.push(call);
      turn![1].shift();
      this.#endTurn(call.client);
    }
  }

  /** Lets all other clients have their turn first. */
  #endTurn(client: string): void {
    const calls = this.#waiting.get(client);
    this.#waiting.delete(client);
    if (calls && calls.length > 0) this.#waiting.set(client, calls);
  }
}

/**
 * Wraps a predictor so that all clients are served in turn. A request is computed in small calls, of
 * which one waits at a time. So whoever comes later waits for a small batch, not for a large request.
 */
export function serveInTurn(predictor: Predictor, callLimits: CallLimits): Predictor {
  const queue = new FairQueue((items) => predictor.predict(items), callLimits);
  return splitCalls({
    ...predictor,
    callLimits,
    predict: async (items, { client = "" } = {}) => [...(await queue.run(items, client))],
  });
}
