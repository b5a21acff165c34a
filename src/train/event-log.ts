import { closeSync, fstatSync, fsyncSync, ftruncateSync, openSync, writeSync } from "node:fs";
import { UserError } from "../errors.js";
import { createFileError } from "../files.js";

/** A file of JSON lines that only grows, and that a resumed run cuts back to where its checkpoint stands. */
export class EventLog {
  readonly #path: string;
  readonly #file: number;
  #bytes: number;

  constructor(path: string, keepBytes: number) {
    this.#path = path;
    this.#file = this.#try(() => openSync(path, "a+"));
    const { size } = fstatSync(this.#file);
    if (size < keepBytes) {
      closeSync(this.#file);
      throw new UserError(
        `${path} is shorter than the checkpoint says, so it was changed since; start again in another folder`,
      );
    }
    if (size > keepBytes) this.#try(() => ftruncateSync(this.#file, keepBytes));
    this.#bytes = keepBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  write(event: Readonly<Record<string, unknown>>): void {
    const line = Buffer.from(`${JSON.stringify(event)}\n`);
    for (let done = 0; done < line.length; ) done += this.#try(() => writeSync(this.#file, line, done));
    this.#bytes += line.length;
  }

  /** Makes sure that what was written survives a power cut. */
  sync(): void {
    this.#try(() => fsyncSync(this.#file));
  }

  close(): void {
    closeSync(this.#file);
  }

  #try<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw createFileError(error, this.#path, "write");
    }
  }
}
