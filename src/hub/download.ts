import { constants, type FileHandle, lstat, mkdir, open, rename, stat, unlink } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { UserError } from "../base/errors.js";
import type { Callbacks } from "../base/events.js";
import { createFileError, exists, getErrorCode, hashFile } from "../base/files.js";
import { waitForLock } from "../base/lock.js";

interface Download {
  readonly file: string;
  readonly url: string;
  readonly fetch: typeof fetch;
  readonly target: string;
  readonly size: number;
  /** The hash by which the hub names the blob: SHA-256 for large files, git's SHA-1 for others. */
  readonly hash: string;
  readonly onEvent?: Callbacks["onEvent"];
}

class DownloadError extends Error {
  constructor(
    readonly status: number,
    url: string,
  ) {
    super(`HTTP status ${status} from ${url}`);
  }
}

/** The connection counts as lost if no byte arrives for this long. */
const stallTimeoutMs = 30_000;
const maxAttempts = 4;

/** Downloads a file, or continues an earlier attempt. Other processes wait for it. */
export async function download(request: Download): Promise<void> {
  const { target, size } = request;
  if (await exists(target)) return;
  const partial = `${target}.temper.incomplete`;
  try {
    await mkdir(dirname(target), { recursive: true });
    const unlock = await waitForLock(`${target}.temper.lock`);
    try {
      if (await exists(target)) return;
      const left = await lstat(partial).catch(() => null);
      // Another user may have planted a link with this name, to have a file of ours overwritten.
      if (left !== null && !left.isFile()) await unlink(partial);
      // The rest of an earlier download may be damaged, so start over once.
      const isIntact =
        (await fetchIntact(request, partial)) || (left?.isFile() && (await fetchIntact(request, partial)));
      if (!isIntact)
        throw new UserError(
          `${request.file}: the content from ${request.url} does not match its hash ${request.hash}. ` +
            "Try again, or set HF_ENDPOINT.",
        );
      await rename(partial, target);
    } finally {
      unlock();
    }
  } catch (error) {
    if (getErrorCode(error) === null) throw error;
    const { message } = createFileError(error, target, `store ${size} bytes in`);
    throw new UserError(`${message}. Downloaded data is kept.`, { cause: error });
  }
}

async function fetchIntact(request: Download, partial: string): Promise<boolean> {
  const { hash, size } = request;
  await fetchAll(request, partial);
  const actual =
    hash.length === 64 ? await hashFile(partial, "sha256") : await hashFile(partial, "sha1", `blob ${size}\0`);
  if (actual !== hash) await unlink(partial);
  return actual === hash;
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

/** Lost connections and overloaded servers deserve another attempt; denied access does not. */
function isTransient(error: unknown): boolean {
  if (error instanceof DownloadError) return error.status >= 500 || error.status === 408 || error.status === 429;
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
      throw new DownloadError(response.status, url);
    }
    const continues =
      response.status === 206 && response.headers.get("content-range")?.startsWith(`bytes ${offset}-`) === true;
    const { O_WRONLY, O_CREAT, O_APPEND, O_TRUNC, O_NOFOLLOW } = constants;
    const file = await open(partial, O_WRONLY | O_CREAT | O_NOFOLLOW | (continues ? O_APPEND : O_TRUNC));
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
