import { setTimeout as sleep } from "node:timers/promises";
import { tryLock } from "../src/base/lock.js";

/** Acquires a lock file as soon as no other process has it. Returns a function that releases it. */
export async function waitForLock(path: string): Promise<() => void> {
  for (;;) {
    const lock = tryLock(path);
    if (typeof lock === "function") return lock;
    await sleep(50);
  }
}
