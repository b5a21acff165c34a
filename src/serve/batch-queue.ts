import { HttpError } from "./http.js";

interface PendingRequest<Item, Answer> {
  readonly items: readonly Item[];
  resolve(answers: readonly Answer[]): void;
  reject(error: unknown): void;
}

export interface BatchQueueOptions {
  readonly maxBatchSize: number;
  /** Items that may wait. A request beyond that is rejected with status 503. */
  readonly maxQueuedItems: number;
}

/**
 * Collects requests that arrive while others are computed and computes them together. A request
 * that fails does not affect the others of its batch.
 */
export class BatchQueue<Item, Answer> {
  readonly #queue: PendingRequest<Item, Answer>[] = [];
  #queuedItems = 0;
  #isBusy = false;

  constructor(
    readonly predict: (items: readonly Item[]) => Promise<readonly Answer[]>,
    readonly options: BatchQueueOptions,
  ) {}

  /** Items that wait or are being computed. */
  get size(): number {
    return this.#queuedItems;
  }

  async run(items: readonly Item[]): Promise<readonly Answer[]> {
    if (items.length === 0) return [];
    if (this.#queuedItems + items.length > this.options.maxQueuedItems)
      throw new HttpError(503, "Too many texts are waiting. Try again later.", { "retry-after": "1" });
    this.#queuedItems += items.length;
    return new Promise<readonly Answer[]>((resolve, reject) => {
      this.#queue.push({ items, resolve, reject });
      // Requests that arrived together are classified together.
      setImmediate(() => void this.#processQueue());
    }).finally(() => {
      this.#queuedItems -= items.length;
    });
  }

  async #processQueue(): Promise<void> {
    if (this.#isBusy) return;
    this.#isBusy = true;
    while (this.#queue.length > 0) await this.#compute(this.#takeBatch());
    this.#isBusy = false;
  }

  async #compute(batch: readonly PendingRequest<Item, Answer>[]): Promise<void> {
    try {
      const answers = await this.predict(batch.flatMap(({ items }) => items));
      let start = 0;
      for (const { items, resolve } of batch) {
        resolve(answers.slice(start, start + items.length));
        start += items.length;
      }
    } catch (error) {
      if (batch.length === 1) batch[0]!.reject(error);
      else for (const pending of batch) await this.#compute([pending]);
    }
  }

  /** Takes complete requests from the front of the queue, at least one. */
  #takeBatch(): PendingRequest<Item, Answer>[] {
    let count = 0;
    let end = 0;
    const fits = (size: number): boolean => end === 0 || count + size <= this.options.maxBatchSize;
    while (end < this.#queue.length && fits(this.#queue[end]!.items.length)) count += this.#queue[end++]!.items.length;
    return this.#queue.splice(0, end);
  }
}
