import { randomUUID } from "node:crypto";
import { linkSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { z } from "zod";
import { createFileError, getErrorCode } from "./files.js";

const ownerSchema = z.object({ pid: z.number().int().positive(), host: z.string(), started: z.string().nullable() });
type LockOwner = z.output<typeof ownerSchema>;

/** How often a holder shows that it lives, and how long after that others believe it: only asked across machines. */
const heartbeatMilliseconds = 15_000;
const staleMilliseconds = 120_000;

/** Takes a lock file, or throws what `refuse` makes of its living owner. The lock of a dead process is no lock. */
export function acquireLock(path: string, refuse: (owner: string) => Error): () => void {
  const release = tryLock(path);
  if (typeof release === "function") return release;
  throw refuse(`process ${release.pid}${release.host === hostname() ? "" : ` on ${release.host}`}`);
}

/** Takes a lock file and returns what releases it, or returns who holds it. */
export function tryLock(path: string): (() => void) | LockOwner {
  const me: LockOwner = { pid: process.pid, host: hostname(), started: readStartTime(process.pid) };
  // The file appears with its content: nobody can find it empty and think its owner dead.
  const ready = `${path}.${randomUUID().slice(0, 8)}`;
  try {
    writeFileSync(ready, JSON.stringify(me));
    while (!tryLink(ready, path)) {
      const owner = findLivingOwner(path);
      if (owner) return owner;
      removeStaleLock(path);
    }
  } catch (error) {
    throw createFileError(error, path, "write the lock");
  } finally {
    rmSync(ready, { force: true });
  }
  const beat = setInterval(() => touch(path), heartbeatMilliseconds).unref();
  return () => {
    clearInterval(beat);
    rmSync(path, { force: true });
  };
}

function tryLink(from: string, path: string): boolean {
  try {
    linkSync(from, path);
    return true;
  } catch (error) {
    if (getErrorCode(error) === "EEXIST") return false;
    throw error;
  }
}

/** Others may see the same dead owner: whoever moves a living one's lock away instead puts it back. */
function removeStaleLock(path: string): void {
  const aside = `${path}.${randomUUID().slice(0, 8)}`;
  try {
    renameSync(path, aside);
  } catch (error) {
    if (getErrorCode(error) === "ENOENT") return;
    throw error;
  }
  if (findLivingOwner(aside)) tryLink(aside, path);
  rmSync(aside, { force: true });
}

function touch(path: string): void {
  try {
    utimesSync(path, new Date(), new Date());
  } catch {
    // Its folder may have been removed under us: the work itself will say so.
  }
}

/** Who holds a lock, if it still runs. */
export function findLivingOwner(path: string): LockOwner | null {
  try {
    const owner = ownerSchema.parse(JSON.parse(readFileSync(path, "utf8")));
    if (owner.host !== hostname()) return Date.now() - statSync(path).mtimeMs < staleMilliseconds ? owner : null;
    // A number alone may by now belong to another process.
    return isAlive(owner.pid) && readStartTime(owner.pid) === owner.started ? owner : null;
  } catch {
    return null;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return getErrorCode(error) === "EPERM";
  }
}

/** When a process was started, as the system counts it; null where it does not say. */
function readStartTime(pid: number): string | null {
  try {
    // The name of the program stands in parentheses and may hold spaces: what counts comes after them.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\)\s/s, "")
      .split(" ");
    return fields[19] ?? null;
  } catch {
    return null;
  }
}
