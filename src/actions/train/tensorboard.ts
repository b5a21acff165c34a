import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { createFileError } from "../../files.js";

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
    this.#record(0, encodeStringField(3, "brain.Event:2"));
    this.#record(from + 1, encodeMessageField(7, encodeVarintField(1, 1)));
  }

  /** Writes the numbers of an event. */
  writeEvent(event: Readonly<Record<string, unknown>>): void {
    const { step, values } = listScalars(event);
    const parts = values.map(([name, value]) =>
      encodeMessageField(1, Buffer.concat([encodeStringField(1, name), encodeFloatField(2, value)])),
    );
    if (parts.length > 0) this.#record(step, encodeMessageField(5, Buffer.concat(parts)));
  }

  close(): void {
    closeSync(this.#file);
  }

  #record(step: number, content: Buffer): void {
    const data = Buffer.concat([encodeDoubleField(1, this.#now()), encodeVarintField(2, step), content]);
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

function encodeFieldKey(field: number, type: number): Buffer {
  return encodeVarint((field << 3) | type);
}

/** Seven bits per byte, the lowest first. The high bit means that more bytes follow. */
function encodeVarint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  return Buffer.from([...bytes, rest]);
}

function encodeVarintField(field: number, value: number): Buffer {
  return Buffer.concat([encodeFieldKey(field, 0), encodeVarint(value)]);
}

function encodeMessageField(field: number, content: Buffer): Buffer {
  return Buffer.concat([encodeFieldKey(field, 2), encodeVarint(content.length), content]);
}

function encodeStringField(field: number, value: string): Buffer {
  return encodeMessageField(field, Buffer.from(value));
}

function encodeDoubleField(field: number, value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleLE(value);
  return Buffer.concat([encodeFieldKey(field, 1), bytes]);
}

function encodeFloatField(field: number, value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return Buffer.concat([encodeFieldKey(field, 5), bytes]);
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
