import { Interrupted } from "../base/errors.js";
import type { Callbacks } from "../base/events.js";

/** A longer timer would fire at once. */
const maxTimer = 2 ** 31 - 1;

/** Callbacks that end work when its time is over: their signal, and their next progress, because not all work looks at signals. */
export function limitTime(
  { signal, onEvent }: Callbacks,
  endsAt: number,
): Callbacks & { readonly signal: AbortSignal } {
  const controller = new AbortController();
  const left = Math.max(0, Math.ceil(endsAt - performance.now()));
  setTimeout(() => controller.abort(), Math.min(left, maxTimer)).unref();
  return {
    signal: AbortSignal.any([controller.signal, ...(signal ? [signal] : [])]),
    onEvent(event) {
      onEvent?.(event);
      if (event.type !== "progress" || performance.now() < endsAt) return;
      controller.abort();
      throw new Interrupted("The time of the audit is over.");
    },
  };
}
