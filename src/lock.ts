import { randomUUID } from "node:crypto";
import { linkSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { z } from "zod";
import { createFileError, getErrorCode } from "./files.js";

const ownerSchema = z.object({ pid: z.number().int().positive(), host: z.string(), started: z.string().nullable() });
type LockOwner = z.output<typeof ownerSchema>;

/** How often an owner on another host touches its lock, and when the lock counts as stale. */
const heartbeatMilliseconds = 15_000;
const staleMilliseconds = 120_000;

/**
 * Acquires a lock file and returns a function that releases it. If a running process owns the lock,
 * throws the error that `createError` returns. The lock of a dead process is removed.
 */
export function acquireLock(path: string, createError: (owner: string) => Error): () => void {
  const result = tryLock(path);
  if (typeof result === "function") return result;
  throw createError(`process ${result.pid}${result.host === hostname() ? "" : ` on ${result.host}`}`);
}

/** Acquires a lock file and returns a function that releases it, or returns the owner. */
export function tryLock(path: string): (() => void) | LockOwner {
  const self: LockOwner = { pid: process.pid, host: hostname(), started: readStartTime(process.pid) };
  // A link creates the lock with its content. An empty lock would look like that of a dead process.
  const prepared = `${path}.${randomUUID().slice(0, 8)}`;
  try {
    writeFileSync(prepared, JSON.stringify(self));
    while (!tryLink(prepared, path)) {
      const owner = findLivingOwner(path);
      if (owner) return owner;
      removeStaleLock(path);
    }
  } catch (error) {
    throw createFileError(error, path, "write the lock");
  } finally {
    rmSync(prepared, { force: true });
  }
  const heartbeat = setInterval(() => touch(path), heartbeatMilliseconds).unref();
  return () => {
    clearInterval(heartbeat);
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

/**
 * Removes the lock of a dead process. Another process may do the same and create a new lock in
 * between. If that lock was moved away by mistake, it is put back.
 */
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
    // The folder may have been removed. The next write reports that.
  }
}

/** Returns the owner of a lock if it is still running. */
export function findLivingOwner(path: string): LockOwner | null {
  try {
    const owner = ownerSchema.parse(JSON.parse(readFileSync(path, "utf8")));
    if (owner.host !== hostname()) return Date.now() - statSync(path).mtimeMs < staleMilliseconds ? owner : null;
    // Process IDs are reused, so compare the start time too.
    return isAlive(owner.pid) && readStartTime(owner.pid) === owner.started ? owner : null;
  } catch {
    return null;
  }
}

/** Whether a process with this ID runs on this host. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return getErrorCode(error) === "EPERM";
  }
}

/** Reads the start time of a process in system ticks, or null if it is not available. */
function readStartTime(pid: number): string | null {
  try {
    // Skip the program name, which is in parentheses and may contain spaces.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\)\s/s, "")
      .split(" ");
    return fields[19] ?? null;
  } catch {
    return null;
  }
}
