import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import protobuf from "protobufjs/minimal.js";
import { createFileError } from "../../base/files.js";

const { Writer } = protobuf;

/** Kinds of fields in protocol buffers. */
const [varint, float64, bytes, float32] = [0, 1, 2, 5];
const tag = (field: number, kind: number): number => (field << 3) | kind;

/**
 * Writes scalars in TensorBoard's format: protocol buffers, each with its length and two checksums.
 */
export class TensorBoardWriter {
  readonly #file: number;
  readonly #now: () => number;

  /**
   * Creates a new file in a folder. In a resumed run, it replaces what earlier files say about
   * steps after `from`.
   */
  constructor(folder: string, from = 0, now: () => number = () => Date.now() / 1000) {
    this.#now = now;
    const path = join(folder, `events.out.tfevents.${Math.floor(now())}.${hostname()}.${process.pid}`);
    try {
      mkdirSync(folder, { recursive: true });
      this.#file = openSync(path, "w");
    } catch (error) {
      throw createFileError(error, path, "write");
    }
    this.#record(0, (event) => event.uint32(tag(3, bytes)).string("brain.Event:2"));
    this.#record(from + 1, (event) => event.uint32(tag(7, bytes)).fork().uint32(tag(1, varint)).int32(1).ldelim());
  }

  /** Writes the numbers of an event. */
  writeEvent(event: Readonly<Record<string, unknown>>): void {
    const { step, values } = listScalars(event);
    if (values.length === 0) return;
    this.#record(step, (event) => {
      const summary = event.uint32(tag(5, bytes)).fork();
      for (const [name, value] of values)
        summary
          .uint32(tag(1, bytes))
          .fork()
          .uint32(tag(1, bytes))
          .string(name)
          .uint32(tag(2, float32))
          .float(value)
          .ldelim();
      summary.ldelim();
    });
  }

  close(): void {
    closeSync(this.#file);
  }

  #record(step: number, addContent: (event: protobuf.Writer) => void): void {
    const event = Writer.create().uint32(tag(1, float64)).double(this.#now()).uint32(tag(2, varint)).int64(step);
    addContent(event);
    const data = event.finish();
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(data.length));
    writeSync(this.#file, Buffer.concat([length, computeMaskedChecksum(length), data, computeMaskedChecksum(data)]));
  }
}

/** The numbers of an event under the names of Hugging Face: `train/loss`, `eval/accuracy`. */
function listScalars(event: Readonly<Record<string, unknown>>): {
  readonly step: number;
  readonly values: [string, number][];
} {
  const { step, epoch: _epoch, evaluation, ...rest } = event;
  const group = evaluation === undefined ? "train" : "eval";
  const values = Object.entries((evaluation ?? rest) as Record<string, unknown>).flatMap(
    ([name, value]): [string, number][] => (typeof value === "number" ? [[`${group}/${name}`, value]] : []),
  );
  return { step: Number(step), values };
}

/** Table of the CRC-32C checksum (reflected Castagnoli polynomial). */
const crcTable = Uint32Array.from({ length: 256 }, (_, byte) => {
  let rest = byte;
  for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? (rest >>> 1) ^ 0x82f63b78 : rest >>> 1;
  return rest;
});

export function crc32c(data: Uint8Array): number {
  let rest = 0xffffffff;
  for (const byte of data) rest = (crcTable[(rest ^ byte) & 255] as number) ^ (rest >>> 8);
  return ~rest >>> 0;
}

/** TensorBoard rotates and shifts checksums, because data may itself contain checksums. */
function computeMaskedChecksum(data: Uint8Array): Buffer {
  const sum = crc32c(data);
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE((((sum >>> 15) | (sum << 17)) + 0xa282ead8) >>> 0);
  return bytes;
}
