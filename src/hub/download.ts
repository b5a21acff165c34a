import { randomUUID } from "node:crypto";
import { constants, type FileHandle, lstat, mkdir, open, readdir, rename, stat, unlink } from "node:fs/promises";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { UserError } from "../base/errors.js";
import type { Callbacks } from "../base/events.js";
import { createFileError, exists, getErrorCode, hashFile } from "../base/files.js";
import { isAlive } from "../base/processes.js";

/** The progress of the download of one file, in bytes. */
export interface DownloadProgress {
  readonly file: string;
  readonly received: number;
  readonly total: number;
}

/** A file to download into the cache. */
export interface Download {
  readonly file: string;
  readonly url: string;
  readonly fetch: typeof fetch;
  readonly target: string;
  readonly size: number;
  /** The hash by which the hub names the blob: SHA-256 for large files, git's SHA-1 for others. */
  readonly hash: string;
  readonly onEvent?: Callbacks["onEvent"];
}

/** An HTTP error status. */
class HttpError extends Error {
  constructor(
    readonly status: number,
    url: string,
  ) {
    super(`HTTP status ${status} from ${url}`);
  }
}

/** The connection counts as lost if no byte arrives for this long. */
const stallTimeoutMs = 30_000;
/** Consecutive attempts without any new byte. */
const maxAttempts = 4;

/**
 * Downloads a file and resumes an earlier attempt. Each process writes a separate partial file, so
 * two concurrent downloads never damage the result. A partial file of a dead process is adopted
 * with a rename, which only one process can win.
 */
export async function download(request: Download): Promise<void> {
  const { target, size } = request;
  if (await exists(target)) return;
  const owner = `${getHostLabel()}-${process.pid}-${randomUUID().slice(0, 8)}`;
  const partial = `${target}.temper-${owner}.incomplete`;
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
    // Without an owner in its name, any process can resume it.
    await rename(partial, `${target}.temper.incomplete`).catch(() => undefined);
    if (getErrorCode(error) === null) throw error;
    const { message } = createFileError(error, target, `store ${size} bytes in`);
    throw new UserError(`${message}. Downloaded data is kept.`, { cause: error });
  }
}

/** The host name as it appears in the names of partial files. */
const getHostLabel = (): string => hostname().replace(/\W/g, "_");

async function isIntact({ hash, size }: Download, partial: string): Promise<boolean> {
  const actual =
    hash.length === 64 ? await hashFile(partial, "sha256") : await hashFile(partial, "sha1", `blob ${size}\0`);
  return actual === hash;
}

function createHashMismatchError({ file, url, hash }: Download): UserError {
  return new UserError(
    `${file}: the content from ${url} does not match its hash ${hash}. Try again, or set HF_ENDPOINT.`,
  );
}

async function fetchAll(request: Download, partial: string): Promise<void> {
  for (let attempts = 0; ; ) {
    const before = await getFileSize(partial);
    try {
      return await fetchRemaining(request, partial, before);
    } catch (error) {
      attempts = (await getFileSize(partial)) > before ? 1 : attempts + 1;
      if (attempts >= maxAttempts || !isTransient(error)) throw error;
      await delay(100 * 2 ** attempts);
    }
  }
}

async function getFileSize(path: string): Promise<number> {
  return (await exists(path)) ? (await stat(path)).size : 0;
}

/**
 * Lost connections and overloaded servers deserve another attempt; denied access and a full disk do
 * not.
 */
function isTransient(error: unknown): boolean {
  if (error instanceof HttpError) return error.status >= 500 || error.status === 408 || error.status === 429;
  return !(error instanceof UserError) && getErrorCode(error) === null;
}

/** Requests the bytes from `offset` on. Resolves only when the file is complete. */
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
    // Another user may have planted a link with this name, to have a file of ours overwritten.
    const { O_WRONLY, O_CREAT, O_APPEND, O_TRUNC, O_NOFOLLOW } = constants;
    const file = await open(partial, O_WRONLY | O_CREAT | O_NOFOLLOW | (continues ? O_APPEND : O_TRUNC)).catch(
      (error: unknown) => {
        if (getErrorCode(error) !== "ELOOP") throw error;
        throw new UserError(`${partial} is a symbolic link. Remove it and try again.`, { cause: error });
      },
    );
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
  const { url, size, onEvent } = request;
  let received = offset;
  onEvent?.({ type: "download", file: request.file, received, total: size });
  for await (const chunk of response.body ?? []) {
    onData();
    received += chunk.length;
    if (received > size)
      throw new UserError(`${request.file}: ${url} sends more than the expected ${size} bytes. Try again later.`);
    await file.writeFile(chunk);
    onEvent?.({ type: "download", file: request.file, received, total: size });
  }
  if (received < size) throw new Error(`${url} ended after ${received} of ${size} bytes`);
}

/** Adopts a partial file of a dead process. Returns false if there is none. */
async function adoptPartialFile(target: string, partial: string): Promise<boolean> {
  const folder = dirname(target);
  for (const name of await readdir(folder)) {
    if (!name.startsWith(`${basename(target)}.temper`) || !name.endsWith(".incomplete")) continue;
    const path = join(folder, name);
    try {
      if (!(await lstat(path)).isFile() || !(await isAbandoned(path))) continue;
      await rename(path, partial);
      return true;
    } catch (error) {
      // Another process adopted or finished it first.
      if (getErrorCode(error) !== "ENOENT") throw error;
    }
  }
  return false;
}

async function isAbandoned(path: string): Promise<boolean> {
  const owner = /\.temper-(\w+)-(\d+)-[0-9a-f]{8}\.incomplete$/.exec(path);
  if (owner === null) return true;
  if (owner[1] === getHostLabel() && !isAlive(Number(owner[2]))) return true;
  // Process IDs repeat, and those of other hosts are unknown. A file without writes for this long
  // is abandoned.
  return Date.now() - (await stat(path)).mtimeMs > 4 * stallTimeoutMs;
}
