// Several processes share work: a shard of an attack, a part of a proof, an item of a sweep. Each unit has a lock
// and a result in files. Whoever gets the lock of an open unit does it, so nothing is done twice, and a killed process
// loses one unit: its lock ends with it, and the next process continues.
import { setTimeout as delay } from "node:timers/promises";
import { tryLock } from "./lock.js";

export interface WorkUnit<Result> {
  /** The lock file of the process that works on the unit. */
  readonly lock: string;
  /** Reads the result; null if the unit is open. */
  readResult(): Promise<Result | null>;
  compute(): Promise<Result>;
}

/** Returns the result of a unit, or computes it; null if another process does. */
export async function claim<Result>(unit: WorkUnit<Result>): Promise<Result | null> {
  const known = await unit.readResult();
  if (known !== null) return known;
  const release = tryLock(unit.lock);
  if (typeof release !== "function") return null;
  try {
    // Another process may have finished it in the meantime.
    return (await unit.readResult()) ?? (await unit.compute());
  } finally {
    release();
  }
}

const pollMilliseconds = 500;

/** Like `claim`, but waits for the process that works on the unit. Null: `stop` was aborted first. */
export async function waitForClaim<Result>(unit: WorkUnit<Result>, stop?: AbortSignal): Promise<Result | null> {
  for (;;) {
    const result = await claim(unit);
    if (result !== null || stop?.aborted) return result;
    await delay(pollMilliseconds);
  }
}
