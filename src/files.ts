import { createHash, randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { access, type FileHandle, open, readFile, rename, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { getErrorMessage, UserError } from "./errors.js";
import { JsonError, parseJson } from "./json.js";

const errorExplanations: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file or folder; check the path",
  ENOTDIR: "a part of the path is a file, not a folder; check the path",
  EISDIR: "this is a folder, expected a file",
  EACCES: "permission denied; check who may read and write it",
  EPERM: "not permitted; check who may read and write it",
  EROFS: "the file system is read-only; choose another place",
  ENOSPC: "the disk is full; free some space and try again",
  EDQUOT: "your disk quota is used up; free some space and try again",
  EMFILE: "too many files are open",
  ELOOP: "its symbolic links run in a circle",
  ENAMETOOLONG: "the name is too long",
};

/** The system's error code (ENOENT, …) of anything that was thrown, or null. */
export function getErrorCode(error: unknown): string | null {
  const code = error instanceof Error && "code" in error ? error.code : null;
  return typeof code === "string" ? code : null;
}

/** A file system failure in plain words: what we were doing, on which path, what to do. */
export function createFileError(error: unknown, path: string, doing: string): UserError {
  if (error instanceof UserError) return error;
  return new UserError(
    `cannot ${doing} ${path}: ${errorExplanations[getErrorCode(error) ?? ""] ?? getErrorMessage(error)}`,
    { cause: error },
  );
}

/** True where the path leads to something; a dangling link leads nowhere. */
export async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

/**
 * Writes a file so that, whatever happens, the path holds the old content or the whole new one: into a temporary file beside it,
 * to the disk, then renamed.
 */
export async function replaceFile(path: string, write: (file: FileHandle) => Promise<void>): Promise<void> {
  const temporary = join(
    dirname(path),
    `.${basename(path).slice(0, 100)}.${process.pid}-${randomUUID().slice(0, 8)}.tmp`,
  );
  try {
    const file = await open(temporary, "wx");
    try {
      await write(file);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
    await syncFolder(dirname(path));
  } catch (error) {
    await unlink(temporary).catch(() => undefined);
    // Only the system's failures are the user's to mend; a mistake of the writer's caller stays what it is.
    throw getErrorCode(error) === null ? error : createFileError(error, path, "write");
  }
}

/** replaceFile for content that is already in memory. */
export async function writeFileAtomic(path: string, data: string | Uint8Array): Promise<void> {
  await replaceFile(path, (file) => file.writeFile(data));
}

/** A rename is durable only once its folder is on the disk (Windows cannot open folders and needs no such thing). */
export async function syncFolder(folder: string): Promise<void> {
  if (process.platform === "win32") return;
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** SHA-256 of a file's content in hex, streamed. */
export async function sha256File(path: string): Promise<string> {
  return hashFile(path, "sha256");
}

/** Hash in hex of `prefix` and a file's content, streamed. */
export async function hashFile(path: string, algorithm: "sha1" | "sha256", prefix = ""): Promise<string> {
  const hash = createHash(algorithm).update(prefix);
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer);
  } catch (error) {
    throw createFileError(error, path, "read");
  }
  return hash.digest("hex");
}

/** Reads a whole UTF-8 text file; `what` names it in messages ("the model's config"). A byte order mark is dropped. */
export async function readText(path: string, what: string): Promise<string> {
  const bytes = await readFile(path).catch((error: unknown) => {
    throw createFileError(error, path, `read ${what}`);
  });
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    throw new UserError(`${path}: ${what} is not UTF-8 text; save it as UTF-8`, { cause: error });
  }
}

/** Reads a JSON file; `what` names it in messages. Broken JSON is reported as file:line:column. */
export async function readJson(path: string, what: string): Promise<unknown> {
  const text = await readText(path, what);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UserError(
      `${path}:${locateJsonError(text)} (${what} must be JSON; it may be cut off or damaged: get it again)`,
      { cause: error },
    );
  }
}

/** The platform's parser is fast but often silent on the place; ours reads the text again to find it. */
function locateJsonError(text: string): string {
  try {
    parseJson(text);
    return "1:1: not valid JSON";
  } catch (error) {
    return error instanceof JsonError ? error.message : `1:1: ${getErrorMessage(error)}`;
  }
}
