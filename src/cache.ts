import { createHash } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { writeFileAtomic } from "./files.js";

/** Where what can be made again is kept: TEMPER_CACHE, or `temper` in the user's cache folder. */
export function cacheFolder(): string {
  const { TEMPER_CACHE, XDG_CACHE_HOME } = process.env;
  return TEMPER_CACHE || join(XDG_CACHE_HOME || join(homedir(), ".cache"), "temper");
}

/**
 * What `make` gives, from the cache where an entry with the same key parts is there. The parts must name all that the result depends
 * on. An entry starts with the hash of its content, so that a damaged one is seen and made again. Entries are renamed into place:
 * processes may share the folder. A folder that cannot be written costs time, not the result.
 */
export async function cachedBytes(kind: string, parts: readonly unknown[], make: () => Promise<Uint8Array>): Promise<Uint8Array> {
  const path = join(cacheFolder(), kind, sha256(JSON.stringify(parts)));
  const entry = await readFile(path).catch(() => undefined);
  const content = entry?.subarray(64);
  if (content !== undefined && entry?.toString("latin1", 0, 64) === sha256(content)) return content;

  const made = await make();
  await mkdir(dirname(path), { recursive: true })
    .then(() => writeFileAtomic(path, Buffer.concat([Buffer.from(sha256(made), "latin1"), made])))
    .catch(() => undefined);
  return made;
}

/** As `cachedBytes`, for a value that JSON can hold. */
export async function cached<T>(kind: string, parts: readonly unknown[], make: () => Promise<T>): Promise<T> {
  let value: T | undefined;
  const bytes = await cachedBytes(kind, parts, async () => {
    value = await make();
    return Buffer.from(JSON.stringify(value), "utf8");
  });
  return value ?? (JSON.parse(Buffer.from(bytes).toString("utf8")) as T);
}

function sha256(data: string | Uint8Array): string {
  return createHash("sha256").update(data).digest("hex");
}
