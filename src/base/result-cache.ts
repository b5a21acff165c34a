import { appendFileSync, closeSync, ftruncateSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { createFileError } from "./files.js";

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
  const explainErrors = <Result>(work: () => Result): Result => {
    try {
      return work();
    } catch (error) {
      throw createFileError(error, path, "write");
    }
  };
  const { file, entries } = explainErrors(() => {
    mkdirSync(dirname(path), { recursive: true });
    const opened = openSync(path, "a+");
    const bytes = readFileSync(path);
    // A killed process, or a full disk, may have left a half-written line.
    const completeBytes = bytes.lastIndexOf(0x0a) + 1;
    if (completeBytes < bytes.length) ftruncateSync(opened, completeBytes);
    return { file: opened, entries: parseEntries<T>(bytes.toString("utf8", 0, completeBytes)) };
  });
  return {
    get: (name) => entries.get(name),
    add(name, value) {
      entries.set(name, value);
      explainErrors(() => appendFileSync(file, `${JSON.stringify([name, value])}\n`));
    },
    close: () => closeSync(file),
  };
}

function parseEntries<T>(text: string): Map<string, T> {
  const entries = new Map<string, T>();
  for (const line of text.split("\n").slice(0, -1))
    try {
      const [name, value] = JSON.parse(line) as [string, T];
      entries.set(name, value);
    } catch {
      // A damaged piece is computed again.
    }
  return entries;
}
