import { appendFileSync, closeSync, existsSync, fsyncSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { createFileError, getErrorCode } from "../files.js";

/**
 * Pieces of a long computation that are done, on disk as soon as they are: what was stopped goes on where it was. A piece's name
 * holds all that decides its value, so that work with other settings adds to the same ledger.
 */
export interface ResultCache<T> {
  get(name: string): T | undefined;
  add(name: string, value: T): void;
  close(): void;
}

/** Opens a ledger of JSON lines, one a piece. Nothing that stands in it is ever erased. */
export function openResultCache<T>(path: string): ResultCache<T> {
  const entries = new Map<string, T>();
  try {
    mkdirSync(dirname(path), { recursive: true });
    const lines = existsSync(path) ? readFileSync(path, "utf8").split("\n") : [""];
    for (const line of lines) parseLine(line, entries);
    const file = openSync(path, "a");
    // Ended, so that a half line does not spoil the next.
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

/** A process that was killed may have left half a line. */
function parseLine<T>(line: string, entries: Map<string, T>): void {
  try {
    const [name, value] = JSON.parse(line) as [string, T];
    entries.set(name, value);
  } catch {
    return;
  }
}
