import { randomUUID } from "node:crypto";
import { type FileHandle, mkdir, open, readdir, rename, stat, unlink } from "node:fs/promises";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { UserError } from "../errors.js";
import { createFileError, exists, getErrorCode, hashFile } from "../files.js";

/** How far the download of one file has come, in bytes. */
export interface DownloadProgress {
  readonly file: string;
  readonly received: number;
  readonly total: number;
}

/** One file to be fetched into the cache. */
export interface Download {
  readonly file: string;
  readonly url: string;
  readonly fetch: typeof fetch;
  readonly target: string;
  readonly size: number;
  /** SHA-256 of the content (large files) or git's SHA-1 of it (the others), as the hub names its blobs. */
  readonly hash: string;
  readonly onProgress?: ((progress: DownloadProgress) => void) | undefined;
}

/** An answer other than the file. */
export class HttpError extends Error {
  constructor(
    readonly status: number,
    url: string,
  ) {
    super(`HTTP status ${status} from ${url}`);
  }
}

/** No byte for this long: the connection counts as lost. */
const stallTimeoutMs = 30_000;
/** Tries in a row that bring nothing new. */
const maxAttempts = 4;

/**
 * Fetches a file, going on where an earlier try stopped. Each process writes a partial file of its own, so that two at once cost
 * traffic but never the file; a partial file left by a process that is gone is taken over (a rename: one taker wins).
 */
export async function download(request: Download): Promise<void> {
  const { target, size } = request;
  if (await exists(target)) return;
  const partial = `${target}.temper-${hostname().replace(/\W/g, "_")}-${process.pid}-${randomUUID().slice(0, 8)}.incomplete`;
  try {
    await mkdir(dirname(target), { recursive: true });
    const resumed = await adoptPartialFile(target, partial);
    await fetchAll(request, partial);
    if (!(await isIntact(request, partial))) {
      await unlink(partial);
      if (!resumed) throw createHashMismatchError(request);
      await fetchAll(request, partial);
      if (!(await isIntact(request, partial))) throw createHashMismatchError(request);
    }
    await rename(partial, target);
  } catch (error) {
    // Without an owner in its name, anyone may go on with it.
    await rename(partial, `${target}.temper.incomplete`).catch(() => undefined);
    throw getErrorCode(error) === null ? error : createFileError(error, target, `store ${size} bytes in`);
  }
}

async function isIntact({ hash, size }: Download, partial: string): Promise<boolean> {
  const actual =
    hash.length === 64 ? await hashFile(partial, "sha256") : await hashFile(partial, "sha1", `blob ${size}\0`);
  return actual === hash;
}

function createHashMismatchError({ file, url, hash }: Download): UserError {
  return new UserError(
    `${file}: what came from ${url} does not have the announced hash ${hash}; try again, or set HF_ENDPOINT to another server`,
  );
}

async function fetchAll(request: Download, partial: string): Promise<void> {
  for (let tries = 0; ; ) {
    const before = await getFileSize(partial);
    try {
      return await fetchRemaining(request, partial, before);
    } catch (error) {
      tries = (await getFileSize(partial)) > before ? 1 : tries + 1;
      if (tries >= maxAttempts || !isTransient(error)) throw error;
      await delay(100 * 2 ** tries);
    }
  }
}

async function getFileSize(path: string): Promise<number> {
  return (await exists(path)) ? (await stat(path)).size : 0;
}

/** Lost connections and overloaded servers are worth another try; refusals and a full disk are not. */
function isTransient(error: unknown): boolean {
  if (error instanceof HttpError) return error.status >= 500 || error.status === 408 || error.status === 429;
  return !(error instanceof UserError) && getErrorCode(error) === null;
}

/** One request for what is missing from `offset` on. Resolves only when the file is whole. */
async function fetchRemaining(request: Download, partial: string, offset: number): Promise<void> {
  const { url, size } = request;
  if (offset > size) {
    await unlink(partial);
    return fetchRemaining(request, partial, 0);
  }
  if (offset === size && size > 0) return;
  const stalled = new AbortController();
  const timer = setTimeout(
    () => stalled.abort(new Error(`no data from ${url} for ${stallTimeoutMs / 1000} s`)),
    stallTimeoutMs,
  );
  try {
    const headers = { "accept-encoding": "identity", ...(offset > 0 ? { range: `bytes=${offset}-` } : {}) };
    const response = await request.fetch(url, { headers, signal: stalled.signal });
    if (!response.ok) {
      await response.body?.cancel();
      throw new HttpError(response.status, url);
    }
    const continues =
      response.status === 206 && response.headers.get("content-range")?.startsWith(`bytes ${offset}-`) === true;
    const file = await open(partial, continues ? "a" : "w");
    try {
      await writeResponse(request, response, file, continues ? offset : 0, () => timer.refresh());
      await file.sync();
    } finally {
      await file.close();
    }
  } finally {
    clearTimeout(timer);
  }
}

async function writeResponse(
  request: Download,
  response: Response,
  file: FileHandle,
  offset: number,
  onData: () => void,
): Promise<void> {
  const { url, size, onProgress } = request;
  let received = offset;
  onProgress?.({ file: request.file, received, total: size });
  for await (const chunk of response.body ?? []) {
    onData();
    received += chunk.length;
    if (received > size)
      throw new UserError(`${request.file}: ${url} sends more than the announced ${size} bytes; try again later`);
    await file.writeFile(chunk);
    onProgress?.({ file: request.file, received, total: size });
  }
  if (received < size) throw new Error(`${url} ended after ${received} of ${size} bytes`);
}

/** Takes over a partial file whose process is gone; false where there is none. */
async function adoptPartialFile(target: string, partial: string): Promise<boolean> {
  const folder = dirname(target);
  for (const name of await readdir(folder)) {
    if (!name.startsWith(`${basename(target)}.temper`) || !name.endsWith(".incomplete")) continue;
    const path = join(folder, name);
    try {
      if (!(await isAbandoned(path))) continue;
      await rename(path, partial);
      return true;
    } catch (error) {
      // Another process took it, or finished with it, first.
      if (getErrorCode(error) !== "ENOENT") throw error;
    }
  }
  return false;
}

async function isAbandoned(path: string): Promise<boolean> {
  const owner = /\.temper-(\w+)-(\d+)-[0-9a-f]{8}\.incomplete$/.exec(path);
  if (owner === null) return true;
  if (owner[1] === hostname().replace(/\W/g, "_") && !isAlive(Number(owner[2]))) return true;
  // Process ids repeat, and other machines' are unknown to us; but whoever writes nothing for so long has given up.
  return Date.now() - (await stat(path)).mtimeMs > 4 * stallTimeoutMs;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return getErrorCode(error) === "EPERM";
  }
}
