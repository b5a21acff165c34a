import { Interrupted } from "../base/errors.js";
import type { Callbacks } from "../base/events.js";

/** The end of the time for a step. */
export interface TimeLimit {
  readonly signal: AbortSignal;
  /** The same callbacks, whose next event ends the work when the time is over: not all work looks at signals. */
  limit<Given extends Callbacks>(callbacks: Given): Given;
}

/** A longer timer would fire at once. */
const maxTimer = 2 ** 31 - 1;

export function createTimeLimit(endsAt: number): TimeLimit {
  const controller = new AbortController();
  const left = Math.max(0, Math.ceil(endsAt - performance.now()));
  setTimeout(() => controller.abort(), Math.min(left, maxTimer)).unref();
  return {
    signal: controller.signal,
    limit: (callbacks) => ({
      ...callbacks,
      onEvent(event) {
        callbacks.onEvent?.(event);
        if (event.type !== "progress" || performance.now() < endsAt) return;
        controller.abort();
        throw new Interrupted("The time of the audit is over.");
      },
    }),
  };
}
