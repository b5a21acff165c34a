import { closeSync, fstatSync, fsyncSync, ftruncateSync, openSync, writeSync } from "node:fs";

/** A file of JSON lines that only grows, and that a resumed run cuts back to where its checkpoint stands. */
export class EventLog {
  readonly #file: number;
  #bytes: number;

  constructor(path: string, keepBytes: number) {
    this.#file = openSync(path, "a+");
    if (fstatSync(this.#file).size < keepBytes) {
      closeSync(this.#file);
      throw new Error(`${path} is shorter than its checkpoint says: it was changed by something else`);
    }
    ftruncateSync(this.#file, keepBytes);
    this.#bytes = keepBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  write(event: Readonly<Record<string, unknown>>): void {
    const line = Buffer.from(`${JSON.stringify(event)}\n`);
    writeSync(this.#file, line);
    this.#bytes += line.length;
  }

  /** Makes sure that what was written survives a power cut. */
  sync(): void {
    fsyncSync(this.#file);
  }

  close(): void {
    closeSync(this.#file);
  }
}
