import { randomUUID } from "node:crypto";
import {
  closeSync,
  constants,
  fstatSync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { hostname } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { UserError } from "./errors.js";
import { createFileError, createFolder, getErrorCode } from "./files.js";
import { isAlive, readStartTime, readSystem } from "./processes.js";

const ownerSchema = z.object({
  pid: z.number().int().positive(),
  host: z.string(),
  /** The boot and the process namespace, because two containers can have the same host name. */
  system: z.string().nullable().default(null),
  started: z.string().nullable(),
  /** Distinguishes the locks that one process acquires one after the other. */
  token: z.string().nullable().default(null),
});
type LockOwner = z.output<typeof ownerSchema>;

const pollMilliseconds = 100;
/** An owner renews its lock in this time, and after the other one a lock is stale for other hosts. */
const heartbeatMilliseconds = 15_000;
const staleMilliseconds = 120_000;
const maxLockBytes = 1 << 16;

/**
 * Acquires a lock file and returns a function that releases it. Throws if a running process owns the
 * lock. The lock of a dead process is removed.
 */
export function acquireLock(path: string): () => void {
  const result = tryLock(path);
  if (typeof result === "function") return result;
  const owner = `process ${result.pid}${result.host === hostname() ? "" : ` on ${result.host}`}`;
  throw new UserError(`${dirname(path)}: ${owner} is writing there. Wait for it, or choose a different --out.`);
}

/**
 * Creates an output folder and keeps other processes out until the returned function is called.
 * `action` is a verb for the error message.
 */
export function lockFolder(folder: string, lock: string, action?: string): () => void {
  createFolder(folder, action);
  return acquireLock(join(folder, lock));
}

/** Acquires a lock file and returns a function that releases it, or returns the owner. */
export function tryLock(path: string): (() => void) | LockOwner {
  const content = formatOwner(process.pid);
  // A link creates the lock with its content. An empty lock would look like that of a dead process.
  const prepared = `${path}.${randomUUID().slice(0, 8)}`;
  try {
    writeFileSync(prepared, content);
    while (!tryLink(prepared, path)) {
      const owner = findLivingOwner(path);
      if (owner) return owner;
      removeIf(path, (current) => findLivingOwner(current) === null);
    }
  } catch (error) {
    throw createFileError(error, path, "write the lock");
  } finally {
    rmSync(prepared, { force: true });
  }
  const heartbeat = setInterval(() => renew(path, content), heartbeatMilliseconds).unref();
  return () => {
    clearInterval(heartbeat);
    try {
      // Another host may have taken over the lock if this process was suspended.
      removeIf(path, (current) => readIfExists(current) === content);
    } catch {
      // A full disk has a better message of its own. The lock of an ended process is removed by the next one.
    }
  };
}

/** Waits until no other process owns a lock file, acquires it, and returns a function that releases it. */
export async function waitForLock(path: string): Promise<() => void> {
  for (;;) {
    const result = tryLock(path);
    if (typeof result === "function") return result;
    await delay(pollMilliseconds);
  }
}

/** The content of a file that names a process of this host, as `findLivingOwner` reads it. */
export function formatOwner(pid: number): string {
  const [system, started] = [readSystem(), readStartTime(pid)];
  const owner: LockOwner = { pid, host: hostname(), system, started, token: randomUUID() };
  return JSON.stringify(owner);
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
 * Removes a lock if it is the expected one. Another process may replace the lock after the first
 * check, so it is moved aside, checked again, and put back if it was moved by mistake.
 */
function removeIf(path: string, isExpected: (path: string) => boolean): void {
  if (!isExpected(path)) return;
  const aside = `${path}.${randomUUID().slice(0, 8)}`;
  try {
    renameSync(path, aside);
  } catch (error) {
    if (getErrorCode(error) === "ENOENT") return;
    throw error;
  }
  if (!isExpected(aside)) tryLink(aside, path);
  rmSync(aside, { force: true });
}

/** Writes the lock again, so that the file system, whose clock all hosts share, dates it. */
function renew(path: string, content: string): void {
  try {
    if (readIfExists(path) === content) writeFileSync(path, content, { flag: "r+" });
  } catch {
    // The next write of a result reports a problem of the disk.
  }
}

/** Returns the owner of a lock if it is still running. */
export function findLivingOwner(path: string): LockOwner | null {
  const owner = parseOwner(readIfExists(path));
  if (owner === null) return null;
  if (owner.host !== hostname() || (owner.system !== null && owner.system !== readSystem()))
    return measureAge(path) < staleMilliseconds ? owner : null;
  // Process IDs are reused, so compare the start time too.
  return isAlive(owner.pid) && readStartTime(owner.pid) === owner.started ? owner : null;
}

/** A lock always has its complete content. Other content is not a lock. */
function parseOwner(text: string | null): LockOwner | null {
  try {
    return text === null ? null : ownerSchema.parse(JSON.parse(text));
  } catch {
    return null;
  }
}

/** An error other than a missing file must not look like a missing lock. */
function readIfExists(path: string): string | null {
  try {
    return readSmallFile(path);
  } catch (error) {
    if (getErrorCode(error) === "ENOENT") return null;
    throw createFileError(error, path, "read the lock");
  }
}

/** Reads a lock in a folder from elsewhere. Anything but a small regular file is not a lock. */
function readSmallFile(path: string): string {
  const file = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  try {
    const stats = fstatSync(file);
    const isLock = stats.isFile() && stats.size < maxLockBytes;
    return isLock || stats.isDirectory() ? readFileSync(file, "utf8") : "";
  } finally {
    closeSync(file);
  }
}

/**
 * Milliseconds since a file was written, by the clock of its file system: the clocks of two hosts
 * may differ by more than a lock lives. Without write permission, this host's clock must do.
 */
function measureAge(path: string): number {
  const modified = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Number.NEGATIVE_INFINITY;
  const probe = `${path}.${randomUUID().slice(0, 8)}`;
  try {
    writeFileSync(probe, "");
    return statSync(probe).mtimeMs - modified;
  } catch {
    return Date.now() - modified;
  } finally {
    rmSync(probe, { force: true });
  }
}
