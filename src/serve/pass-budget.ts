import type { PreparedText } from "../models/inference/predictor.js";
import { HttpError } from "./http.js";

/** Model passes that may be requested. Each window and each group of a vote is one. */
export interface PassLimits {
  /** By one request. */
  readonly maxPasses: number;
  /** By all requests of one client that are not answered yet. */
  readonly maxClientPasses: number;
  /** By all requests that are not answered yet. */
  readonly maxQueuedPasses: number;
}

const advice = "Send fewer or shorter texts per request";

export function countPasses(items: readonly PreparedText[]): number {
  return items.reduce((sum, { passes = 1 }) => sum + passes, 0);
}

export function checkPasses(passes: number, maxPasses: number): void {
  if (passes > maxPasses)
    throw new HttpError(
      413,
      `Expected texts that need at most ${maxPasses} model passes per request, received at least ${passes}. ` +
        `${advice}, or start the server with a larger --max-passes.`,
    );
}

export class PassBudget {
  readonly #byClient = new Map<string, number>();
  #total = 0;

  constructor(
    readonly limits: PassLimits,
    readonly onChange: (total: number) => void,
  ) {}

  /** Reserves the passes of a request. Call the result when the request is answered. */
  reserve(client: string, passes: number): () => void {
    const { maxClientPasses, maxQueuedPasses } = this.limits;
    const own = (this.#byClient.get(client) ?? 0) + passes;
    if (own > maxClientPasses)
      throw new HttpError(
        413,
        `Expected at most ${maxClientPasses} model passes per client at a time, received ${own} with those that wait. ` +
          `Wait for answers. ${advice}, or start the server with a larger --max-client-passes.`,
        { "retry-after": "1" },
      );
    if (this.#total + passes > maxQueuedPasses)
      throw new HttpError(503, "Too many texts are waiting. Try again later.", { "retry-after": "1" });
    this.#add(client, passes);
    return () => this.#add(client, -passes);
  }

  #add(client: string, passes: number): void {
    this.#total += passes;
    const own = (this.#byClient.get(client) ?? 0) + passes;
    if (own === 0) this.#byClient.delete(client);
    else this.#byClient.set(client, own);
    this.onChange(this.#total);
  }
}
