import { createHash } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { writeFileAtomic } from "./files.js";
import { waitForLock } from "./lock.js";

/** Returns the folder for reproducible data: TEMPER_CACHE, or `temper` in the user's cache folder. */
export function getCacheFolder(): string {
  const { TEMPER_CACHE, XDG_CACHE_HOME } = process.env;
  return TEMPER_CACHE || join(XDG_CACHE_HOME || join(homedir(), ".cache"), "temper");
}

/**
 * Returns the cached result of `compute`. The key parts must contain everything that the result
 * depends on. An entry starts with the hash of its content, so a damaged entry is detected and
 * recomputed. Processes can share the folder: while one computes an entry, the others wait. If the
 * folder is not writable, the result is computed every time.
 */
export async function getCachedBytes(
  kind: string,
  parts: readonly unknown[],
  compute: () => Promise<Uint8Array>,
): Promise<Uint8Array> {
  const path = join(getCacheFolder(), kind, sha256(JSON.stringify(parts)));
  const cached = await readEntry(path);
  if (cached) return cached;
  const unlock = await mkdir(dirname(path), { recursive: true })
    .then(() => waitForLock(`${path}.lock`))
    .catch(() => null);
  try {
    const justWritten = await readEntry(path);
    if (justWritten) return justWritten;
    const bytes = await compute();
    await writeFileAtomic(path, Buffer.concat([Buffer.from(sha256(bytes), "latin1"), bytes])).catch(() => undefined);
    return bytes;
  } finally {
    unlock?.();
  }
}

async function readEntry(path: string): Promise<Uint8Array | undefined> {
  const entry = await readFile(path).catch(() => undefined);
  const content = entry?.subarray(64);
  return content !== undefined && entry?.toString("latin1", 0, 64) === sha256(content) ? content : undefined;
}

/** Like `getCachedBytes`, for a JSON value. */
export async function getCached<T>(kind: string, parts: readonly unknown[], compute: () => Promise<T>): Promise<T> {
  let value: T | undefined;
  const bytes = await getCachedBytes(kind, parts, async () => {
    value = await compute();
    return Buffer.from(JSON.stringify(value), "utf8");
  });
  return value ?? (JSON.parse(Buffer.from(bytes).toString("utf8")) as T);
}

function sha256(data: string | Uint8Array): string {
  return createHash("sha256").update(data).digest("hex");
}
