import { createHash } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { writeFileAtomic } from "./files.js";
import { tryLock } from "./lock.js";

/** Where what can be made again is kept: TEMPER_CACHE, or `temper` in the user's cache folder. */
export function getCacheFolder(): string {
  const { TEMPER_CACHE, XDG_CACHE_HOME } = process.env;
  return TEMPER_CACHE || join(XDG_CACHE_HOME || join(homedir(), ".cache"), "temper");
}

/** How often a process looks whether another one has made what both need. */
const pollMilliseconds = 100;

/**
 * What `make` gives, from the cache where an entry with the same key parts is there. The parts must name all that the result depends
 * on. An entry starts with the hash of its content, so that a damaged one is seen and made again. Entries are renamed into place:
 * processes may share the folder, and what one of them is making the others wait for. A folder that cannot be written costs time,
 * not the result.
 */
export async function getCachedBytes(
  kind: string,
  parts: readonly unknown[],
  make: () => Promise<Uint8Array>,
): Promise<Uint8Array> {
  const path = join(getCacheFolder(), kind, sha256(JSON.stringify(parts)));
  for (;;) {
    const found = await readEntry(path);
    if (found) return found;
    const lock = await lockEntry(path);
    if (lock === "taken") {
      await delay(pollMilliseconds);
      continue;
    }
    try {
      const justMade = await readEntry(path);
      if (justMade) return justMade;
      const made = await make();
      await writeFileAtomic(path, Buffer.concat([Buffer.from(sha256(made), "latin1"), made])).catch(() => undefined);
      return made;
    } finally {
      lock?.();
    }
  }
}

async function readEntry(path: string): Promise<Uint8Array | undefined> {
  const entry = await readFile(path).catch(() => undefined);
  const content = entry?.subarray(64);
  return content !== undefined && entry?.toString("latin1", 0, 64) === sha256(content) ? content : undefined;
}

/** What releases the entry's lock; null where the folder cannot be written. */
async function lockEntry(path: string): Promise<(() => void) | "taken" | null> {
  try {
    await mkdir(dirname(path), { recursive: true });
    const lock = tryLock(`${path}.lock`);
    return typeof lock === "function" ? lock : "taken";
  } catch {
    return null;
  }
}

/** As `cachedBytes`, for a value that JSON can hold. */
export async function getCached<T>(kind: string, parts: readonly unknown[], make: () => Promise<T>): Promise<T> {
  let value: T | undefined;
  const bytes = await getCachedBytes(kind, parts, async () => {
    value = await make();
    return Buffer.from(JSON.stringify(value), "utf8");
  });
  return value ?? (JSON.parse(Buffer.from(bytes).toString("utf8")) as T);
}

function sha256(data: string | Uint8Array): string {
  return createHash("sha256").update(data).digest("hex");
}
