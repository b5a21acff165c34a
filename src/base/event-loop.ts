import { Interrupted } from "./errors.js";

/** Signals, timers and requests wait at most this long for work on the host, plus one step of it. */
const maxBlockedMilliseconds = 100;

let lastTurn = performance.now();

/** Returns true if work on the host has kept signals, timers and requests waiting for long enough. */
export function isTurnDue(): boolean {
  return performance.now() - lastTurn > maxBlockedMilliseconds;
}

/**
 * Lets signals, timers and requests be handled, and throws `Interrupted` if the work shall stop. Call it between two
 * steps of work on the host if `isTurnDue()`.
 */
export async function takeTurn(signal?: AbortSignal): Promise<void> {
  await new Promise(setImmediate);
  lastTurn = performance.now();
  stopIfAborted(signal);
}

export function stopIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new Interrupted("Stopped. Nothing is half-written.");
}
