import { appendFileSync, closeSync, existsSync, fsyncSync, mkdirSync, openSync, readFileSync } from "node:fs";
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
    const lines = existsSync(path) ? readFileSync(path, "utf8").split("\n") : [""];
    for (const line of lines) parseLine(line, entries);
    const file = openSync(path, "a");
    // End a half-written line, so that it does not damage the next one.
    if (lines.at(-1) !== "") appendFileSync(file, "\n");
    return {
      get: (name) => entries.get(name),
      add(name, value) {
        entries.set(name, value);
        appendFileSync(file, `${JSON.stringify([name, value])}\n`);
      },
      close() {
        fsyncSync(file);
        closeSync(file);
      },
    };
  } catch (error) {
    throw getErrorCode(error) === null ? error : createFileError(error, path, "write");
  }
}

/** A killed process may have left a half-written line, which is skipped. */
function parseLine<T>(line: string, entries: Map<string, T>): void {
  try {
    const [name, value] = JSON.parse(line) as [string, T];
    entries.set(name, value);
  } catch {
    return;
  }
}
