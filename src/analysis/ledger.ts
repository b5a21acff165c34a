import { appendFileSync, closeSync, existsSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { codeOf, fileError } from "../files.js";

/** Pieces of a long computation that are done, on disk as soon as they are: what was stopped goes on where it was. */
export interface Ledger<T> {
  get(name: string): T | undefined;
  add(name: string, value: T): void;
  readonly size: number;
  close(): void;
}

/**
 * Opens a ledger of JSON lines: first `settings`, all that decides the values, then a line a piece. One that was begun with other
 * settings is begun anew.
 */
export function openLedger<T>(path: string, settings: object): Ledger<T> {
  const header = JSON.stringify({ settings });
  const entries = new Map<string, T>();
  try {
    mkdirSync(dirname(path), { recursive: true });
    const lines = existsSync(path) ? readFileSync(path, "utf8").split("\n") : [];
    if (lines[0] === header) for (const line of lines.slice(1)) readLine(line, entries);
    // Written whole again, so that a half line at the end does not spoil the next.
    const clean = `${path}.tmp`;
    writeFileSync(clean, [header, ...[...entries].map((entry) => JSON.stringify(entry)), ""].join("\n"));
    renameSync(clean, path);
    const file = openSync(path, "a");
    return {
      get: (name) => entries.get(name),
      add(name, value) {
        entries.set(name, value);
        appendFileSync(file, `${JSON.stringify([name, value])}\n`);
      },
      get size() {
        return entries.size;
      },
      close() {
        fsyncSync(file);
        closeSync(file);
      },
    };
  } catch (error) {
    throw codeOf(error) === null ? error : fileError(error, path, "write");
  }
}

/** A process that was killed may have left half a line. */
function readLine<T>(line: string, entries: Map<string, T>): void {
  try {
    const [name, value] = JSON.parse(line) as [string, T];
    entries.set(name, value);
  } catch {
    return;
  }
}
