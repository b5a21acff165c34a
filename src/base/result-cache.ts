import {
  appendFileSync,
  closeSync,
  existsSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readFileSync,
} from "node:fs";
import { dirname } from "node:path";
import { createFileError, getErrorCode } from "./files.js";

/**
 * Finished pieces of a long computation, stored on disk at once, so that a stopped computation can
 * continue. The name of a piece contains everything that decides its value, so computations with
 * other settings can share the file.
 */
export interface ResultCache<T> {
  get(name: string): T | undefined;
  add(name: string, value: T): void;
  close(): void;
}

/** Opens a cache of JSON lines, one per piece. Nothing in it is ever removed. */
export function openResultCache<T>(path: string): ResultCache<T> {
  const entries = new Map<string, T>();
  try {
    mkdirSync(dirname(path), { recursive: true });
    const bytes = existsSync(path) ? readFileSync(path) : Buffer.alloc(0);
    const completeBytes = bytes.lastIndexOf(0x0a) + 1;
    for (const line of bytes.toString("utf8", 0, completeBytes).split("\n")) parseLine(line, entries);
    const file = openSync(path, "a");
    // A killed process, or a full disk, may have left a half-written line.
    if (completeBytes < bytes.length) ftruncateSync(file, completeBytes);
    const tryToWrite = (write: () => void): void => {
      try {
        write();
      } catch (error) {
        throw createFileError(error, path, "write");
      }
    };
    return {
      get: (name) => entries.get(name),
      add(name, value) {
        entries.set(name, value);
        tryToWrite(() => appendFileSync(file, `${JSON.stringify([name, value])}\n`));
      },
      close() {
        tryToWrite(() => {
          try {
            fsyncSync(file);
          } finally {
            closeSync(file);
          }
        });
      },
    };
  } catch (error) {
    throw getErrorCode(error) === null ? error : createFileError(error, path, "write");
  }
}

/** A line that is not complete is skipped. */
function parseLine<T>(line: string, entries: Map<string, T>): void {
  try {
    const [name, value] = JSON.parse(line) as [string, T];
    entries.set(name, value);
  } catch {
    return;
  }
}
