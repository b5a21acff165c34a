import { createHash, randomUUID } from "node:crypto";
import { accessSync, constants, type Dirent, existsSync, mkdirSync, openSync, rmSync, statSync } from "node:fs";
import { access, type FileHandle, lstat, open, readdir, realpath, rename, rm, rmdir, stat } from "node:fs/promises";
import { hostname } from "node:os";
import { basename, dirname, join, resolve, sep } from "node:path";
import { getErrorMessage, UserError } from "./errors.js";
import { JsonError, parseJson } from "./json.js";
import { isAlive, readStartTime, readSystem } from "./processes.js";

const errorExplanations: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file or folder; check the path",
  ENOTDIR: "a part of the path is a file, not a folder; check the path",
  EISDIR: "this is a folder, expected a file",
  EACCES: "permission denied; check the permissions",
  EPERM: "operation not permitted; check the permissions",
  EROFS: "the file system is read-only; choose another folder",
  ENOSPC: "the disk is full; free some space and try again",
  EDQUOT: "the disk quota is exceeded; free some space and try again",
  EEXIST: "there is a file of this name; choose another path",
  EIO: "the disk reports an input/output error; check it and try again",
  ESTALE: "the network file system lost the file; mount it again and try again",
  EMFILE: "too many files are open",
  ENFILE: "too many files are open",
  ELOOP: "this is a symbolic link, expected a file; replace the link by a copy",
  ENAMETOOLONG: "the name is too long",
};

/** Returns the system error code (ENOENT, …) of a thrown value, or null. */
export function getErrorCode(error: unknown): string | null {
  const code = error instanceof Error && "code" in error ? error.code : null;
  return typeof code === "string" ? code : null;
}

/** Explains a file system error. `action` is a verb such as "read". */
export function createFileError(error: unknown, path: string, action: string): UserError {
  if (error instanceof UserError) return error;
  return new UserError(
    `cannot ${action} ${path}: ${errorExplanations[getErrorCode(error) ?? ""] ?? getErrorMessage(error)}`,
    { cause: error },
  );
}

/** Returns true if a path exists. A dangling link does not. */
export async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

/** Creates a folder and the folders above it. `action` is a verb for the error message. */
export function createFolder(path: string, action = "create the folder"): void {
  try {
    createFolders(resolve(path));
  } catch (error) {
    throw createFileError(error, path, action);
  }
}

/** Rejects a new file if its folder, or the next existing one above it, is not writable. */
export function checkWritable(path: string): void {
  let folder = dirname(resolve(path));
  while (!existsSync(folder)) folder = dirname(folder);
  try {
    accessSync(folder, constants.W_OK);
  } catch (error) {
    throw createFileError(error, path, "write");
  }
}

/** One by one: with `recursive`, Node never returns if the file system refuses, as /proc does. */
function createFolders(path: string): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return;
  createFolders(dirname(path));
  try {
    mkdirSync(path);
  } catch (error) {
    // Another process may have created it.
    if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) throw error;
  }
}

export async function readFolder(path: string): Promise<Dirent[]> {
  return readdir(path, { withFileTypes: true }).catch((error: unknown) => {
    throw createFileError(error, path, "read the folder");
  });
}

/** The names of the folders inside a folder. Symbolic links to folders count. */
export async function listSubfolders(path: string): Promise<string[]> {
  const isFolder = async (entry: Dirent): Promise<boolean> =>
    entry.isDirectory() ||
    (entry.isSymbolicLink() && ((await stat(join(path, entry.name)).catch(() => null))?.isDirectory() ?? false));
  const entries = await readFolder(path);
  const checked = await Promise.all(entries.map(async (entry) => ((await isFolder(entry)) ? [entry.name] : [])));
  return checked.flat();
}

/** The bytes of a file, or of all files in a folder. Symbolic links count as nothing. */
export async function measurePath(path: string): Promise<number> {
  const found = await lstat(path).catch(() => null);
  if (found === null || !(found.isFile() || found.isDirectory())) return 0;
  if (found.isFile()) return found.size;
  const sizes = await Promise.all((await readFolder(path)).map(({ name }) => measurePath(join(path, name))));
  return sizes.reduce((sum, size) => sum + size, 0);
}

/**
 * Writes a file atomically: into a temporary file in the same folder, synced to disk, then renamed.
 * The path always has either the old or the complete new content.
 */
export async function replaceFile(path: string, write: (file: FileHandle) => Promise<void>): Promise<void> {
  await writeBeside(path, async (temporary) => {
    const file = await open(temporary, "wx");
    try {
      await write(file);
      await file.sync();
    } finally {
      await file.close();
    }
  });
}

/**
 * Writes a folder atomically: `write` fills a temporary folder beside it, which is then renamed. The
 * path has either nothing or the complete content. A folder with content is never replaced.
 */
export async function createFolderAtomic(path: string, write: (temporary: string) => Promise<void>): Promise<void> {
  const target = resolve(path);
  createFolder(dirname(target));
  await writeBeside(target, async (temporary) => {
    mkdirSync(temporary);
    await write(temporary);
    // A rename replaces an empty folder only. Windows does not even do that.
    await rmdir(target).catch(() => undefined);
    if (await exists(target))
      throw new UserError(`${path}: something was written there meanwhile. It stays. Choose a different folder.`);
  });
}

async function writeBeside(path: string, write: (temporary: string) => Promise<void>): Promise<void> {
  await removeAbandoned(dirname(path));
  const temporary = createTemporaryPath(path);
  try {
    await write(temporary);
    await rename(temporary, path);
    await syncFolder(dirname(path));
  } catch (error) {
    await rm(temporary, { recursive: true, force: true });
    // Explain only system errors. Errors of the caller's `write` function pass through.
    throw getErrorCode(error) === null ? error : createFileError(error, path, "write");
  } finally {
    temporaries.delete(temporary);
  }
}

/** The temporary files and folders that this process is writing. A signal must not leave them. */
const temporaries = new Set<string>();

/** A name beside `path` that nobody else has. It says which process on which host made it. */
function createTemporaryPath(path: string): string {
  const owner = `${process.pid}-${getHostId()}${getStartId(process.pid)}`;
  const name = `.${basename(path).slice(0, 100)}.${owner}${randomUUID().slice(0, 8)}.tmp`;
  const temporary = resolve(dirname(path), name);
  if (!process.listeners("exit").includes(removeTemporaries)) process.once("exit", removeTemporaries);
  temporaries.add(temporary);
  return temporary;
}

function removeTemporaries(): void {
  for (const path of temporaries)
    try {
      // Another thread may still write into a folder, so it is removed again.
      rmSync(path, { recursive: true, force: true, maxRetries: 3 });
    } catch {
      // The next command that writes there removes what a process has left.
    }
}

/** Distinguishes hosts and containers that share a folder, because each has its own process IDs. */
function getHostId(): string {
  return shortHash(`${hostname()} ${readSystem()}`);
}

/** Distinguishes processes with the same ID: the first one of a container always has 1. */
function getStartId(pid: number): string {
  return shortHash(String(readStartTime(pid)));
}

function shortHash(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 8);
}

/** A process on another host, or in another container, has surely ended if it wrote nothing for this time. */
const maxWritingMilliseconds = 24 * 60 * 60 * 1000;

/**
 * Removes the temporary files and folders that killed processes left in a folder. Their names
 * contain the process and the host, so files of other programs and of running processes stay.
 * Those of other hosts go when they are a day old.
 */
async function removeAbandoned(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    const [, pid, host, started] = /^\..*\.(\d+)-([0-9a-f]{8})([0-9a-f]{8})[0-9a-f]{8}\.tmp$/.exec(name) ?? [];
    if (host === undefined) continue;
    const path = join(folder, name);
    const isAbandoned =
      host === getHostId()
        ? !isAlive(Number(pid)) || getStartId(Number(pid)) !== started
        : Date.now() - ((await lstat(path).catch(() => null))?.mtimeMs ?? Date.now()) > maxWritingMilliseconds;
    if (isAbandoned) await rm(path, { recursive: true, force: true }).catch(() => undefined);
  }
}

/** Like `replaceFile`, for content in memory. */
export async function writeFileAtomic(path: string, data: string | Uint8Array): Promise<void> {
  await replaceFile(path, (file) => file.writeFile(data));
}

/**
 * Syncs a folder, which makes a rename durable. Windows cannot open folders and does not need this.
 */
export async function syncFolder(folder: string): Promise<void> {
  if (process.platform === "win32") return;
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * Opens a file to read it and to append to it, and creates it if necessary. A link is an error: in a folder from
 * elsewhere, it could lead to any file of this user.
 */
export function openForAppending(path: string): number {
  return openSync(path, constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0));
}

/**
 * Largest sizes of the files of folders that may come from elsewhere. A larger file is damaged or
 * malicious. Weights are read in parts, and their header has its own limit.
 */
const maxFileBytes = {
  settings: 64 << 20,
  figure: 32 << 20,
  tokenizer: 256 << 20,
  lines: 500 << 20,
  /** Journals are read line by line. */
  journal: Number.POSITIVE_INFINITY,
  weights: Number.POSITIVE_INFINITY,
} as const;

/** A file of a folder that may come from elsewhere: of a run, a model or a tokenizer. */
export interface FolderFile {
  readonly kind: keyof typeof maxFileBytes;
  /** Links must not leave this folder. By default it is the folder of the file. */
  readonly root?: string;
}

/**
 * Opens a regular file to read it. Pipes and devices are rejected without waiting for them. A file
 * of a folder from elsewhere must not be a link out of that folder, because its content may end up
 * in reports and uploads, and it must not be too large. `what` names the file in messages.
 */
export async function openRegularFile(path: string, what: string, file?: FolderFile): Promise<FileHandle> {
  if (file) await checkLinks(path, file.root ?? dirname(path), what);
  // Opening a pipe waits for its writer, except with O_NONBLOCK.
  const handle = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)).catch((error: unknown) => {
    throw getErrorCode(error) === "ENXIO"
      ? createSpecialFileError(path, what)
      : createFileError(error, path, `read ${what}`);
  });
  try {
    const stats = await handle.stat();
    if (stats.isDirectory())
      throw new UserError(`cannot read ${what} ${path}: this is a folder, expected a file`, {
        cause: Object.assign(new Error("EISDIR"), { code: "EISDIR" }),
      });
    if (!stats.isFile()) throw createSpecialFileError(path, what);
    const limit = file ? maxFileBytes[file.kind] : Number.POSITIVE_INFINITY;
    if (stats.size > limit)
      throw new UserError(`${path}: ${what} has ${stats.size} bytes, more than ${limit}. The file may be damaged.`);
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

function createSpecialFileError(path: string, what: string): UserError {
  return new UserError(`${path}: expected ${what} in a regular file, found a pipe or a device. Copy it to a file.`);
}

/** Rejects a folder from elsewhere if one of these entries is a link out of it. `what` names the folder in messages. */
export async function checkEntries(folder: string, names: readonly string[], what: string): Promise<void> {
  for (const entry of await readFolder(folder))
    if (entry.isSymbolicLink() && names.includes(entry.name)) await checkLinks(join(folder, entry.name), folder, what);
}

/** Rejects a link that leads out of `root`, except to a blob of the hub cache that contains both. */
async function checkLinks(path: string, root: string, what: string): Promise<void> {
  const [target, folder] = await Promise.all([realpath(path), realpath(root)]).catch((error: unknown) => {
    throw createFileError(error, path, `read ${what}`);
  });
  const [, storage] = /^(.*)[/\\]snapshots[/\\][0-9a-f]{40}([/\\]|$)/.exec(folder) ?? [];
  const allowed = [folder, ...(storage === undefined ? [] : [join(storage, "blobs")])];
  if (allowed.some((each) => target.startsWith(each.endsWith(sep) ? each : `${each}${sep}`))) return;
  throw new UserError(
    `${path} is a link out of its folder, to ${target}. Temper does not follow it, because the folder may come ` +
      "from elsewhere. If you trust it, replace the link by a copy.",
  );
}

export async function sha256File(path: string, file?: FolderFile): Promise<string> {
  return hashFile(path, "sha256", "", file);
}

/** Computes the hash of `prefix` and the content of a file in hex. */
export async function hashFile(
  path: string,
  algorithm: "sha1" | "sha256",
  prefix = "",
  file?: FolderFile,
): Promise<string> {
  const hash = createHash(algorithm).update(prefix);
  for await (const chunk of streamFile(path, "the content to hash", file)) hash.update(chunk);
  return hash.digest("hex");
}

/** Reads a regular file in parts. `what` names it in messages. */
export async function* streamFile(path: string, what: string, file?: FolderFile): AsyncGenerator<Buffer> {
  const handle = await openRegularFile(path, what, file);
  try {
    yield* handle.createReadStream({ highWaterMark: 1 << 20 }) as AsyncIterable<Buffer>;
  } catch (error) {
    throw createFileError(error, path, `read ${what}`);
  } finally {
    await handle.close().catch(() => undefined);
  }
}

export async function readBytes(path: string, what: string, file?: FolderFile): Promise<Buffer> {
  const handle = await openRegularFile(path, what, file);
  try {
    return await handle.readFile();
  } catch (error) {
    throw createFileError(error, path, `read ${what}`);
  } finally {
    await handle.close();
  }
}

/**
 * Rejects named pipes, devices and sockets: reading them may never end. `what` names the file in
 * messages.
 */
export async function checkRegularFile(path: string, what: string, file?: FolderFile): Promise<void> {
  await (await openRegularFile(path, what, file)).close();
}

/**
 * Reads a UTF-8 text file without its byte order mark. `what` names it in messages ("the config").
 */
export async function readText(path: string, what: string, file?: FolderFile): Promise<string> {
  const bytes = await readBytes(path, what, file);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    throw new UserError(`${path}: ${what} is not UTF-8 text. Save it as UTF-8.`, { cause: error });
  }
}

/** Reads a JSON file. `what` names it in messages. Errors have the form file:line:column. */
export async function readJson(path: string, what: string, file?: FolderFile): Promise<unknown> {
  const text = await readText(path, what, file);
  try {
    return parseJson(text);
  } catch (error) {
    const problem = error instanceof JsonError ? error.message : `1:1: ${getErrorMessage(error)}`;
    throw new UserError(`${path}:${problem} (${what} must be JSON; the file may be truncated or damaged)`, {
      cause: error,
    });
  }
}

/** Rejects a folder that has content, so that nothing is overwritten. */
export async function checkNewFolder(folder: string): Promise<void> {
  if ((await exists(folder)) && (await readFolder(folder)).length > 0)
    throw new UserError(`--out ${folder}: expected a new or empty folder. Choose another one, or remove its content.`);
}
