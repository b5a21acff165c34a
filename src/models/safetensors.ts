import { readSync } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { UserError } from "../errors.js";
import { createFileError } from "../files.js";
import { explainPickleRejection, isPickleFile } from "./pickle.js";
import {
  damagedFileHint,
  parseHeader,
  quoteName,
  type SafetensorsEntry,
  type SafetensorsHeader,
} from "./safetensors-header.js";

export type { SafetensorsDType as SafetensorsType, SafetensorsEntry } from "./safetensors-header.js";

/** An open file of tensors: its table is in memory and proven sound, its bytes are read on demand. */
export interface SafetensorsFile extends SafetensorsHeader {
  readonly path: string;
  /** A tensor's bytes (little endian, row-major), in a buffer of their own or in `into`, which must be exactly as long. */
  read(name: string, into?: Uint8Array): Promise<Uint8Array>;
  readSync(name: string, into?: Uint8Array): Uint8Array;
  close(): Promise<void>;
}

/** The format's own limit; it bounds what a hostile file can make us allocate. */
const maxHeaderBytes = 100_000_000;
/** One system call cannot read 2 GiB. */
const maxReadBytes = 1 << 30;

/** Opens a safetensors file and checks its whole header against the file's size. */
export async function openSafetensors(path: string): Promise<SafetensorsFile> {
  if (isPickleFile(path)) throw new UserError(explainPickleRejection([path], dirname(path)));
  const file = await openPlainFile(path);
  try {
    const { size } = await file.stat();
    const { text, dataStart } = await readHeader(file, path, size);
    return createSafetensorsFile(file, path, parseHeader(text, path, dataStart, size));
  } catch (error) {
    await file.close();
    throw createFileError(error, path, "read");
  }
}

async function openPlainFile(path: string): Promise<FileHandle> {
  try {
    // Asked before opening: opening a pipe would wait for its other end.
    if (!(await stat(path)).isFile())
      throw new UserError(`${path}: expected a safetensors file, found a folder or device`);
    return await open(path, "r");
  } catch (error) {
    throw createFileError(error, path, "open");
  }
}

async function readHeader(file: FileHandle, path: string, size: number): Promise<{ text: string; dataStart: number }> {
  if (size < 8)
    throw new UserError(`${path}: expected a safetensors file of at least 8 bytes, found ${size}; ${damagedFileHint}`);
  const prefix = Buffer.alloc(8);
  await readFully(file, prefix, 0, path);
  const length = prefix.readBigUInt64LE();
  if (length > BigInt(maxHeaderBytes)) {
    const isPickle = prefix.toString("latin1").startsWith("PK\x03\x04") || prefix[0] === 0x80;
    if (isPickle) throw new UserError(explainPickleRejection([path], dirname(path)));
    throw new UserError(
      `${path}: its header claims ${length} bytes, the format allows ${maxHeaderBytes}; not safetensors, or ${damagedFileHint}`,
    );
  }
  if (length > BigInt(size - 8)) {
    throw new UserError(`${path}: its header claims ${length} bytes, but only ${size - 8} follow; ${damagedFileHint}`);
  }
  const header = Buffer.alloc(Number(length));
  await readFully(file, header, 8, path);
  try {
    return {
      text: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(header),
      dataStart: 8 + header.length,
    };
  } catch (error) {
    throw new UserError(`${path}: its header is not UTF-8; ${damagedFileHint}`, { cause: error });
  }
}

function createSafetensorsFile(file: FileHandle, path: string, header: SafetensorsHeader): SafetensorsFile {
  /** The tensor's place, and the caller's buffer or a new one for it. */
  function plan(name: string, into?: Uint8Array): { entry: SafetensorsEntry; target: Uint8Array } {
    const entry = header.entries.get(name);
    if (entry === undefined)
      throw new UserError(`${path}: there is no tensor ${quoteName(name)} among its ${header.entries.size}`);
    const length = entry.end - entry.begin;
    if (into !== undefined && into.length !== length) {
      throw new RangeError(`tensor ${quoteName(name)} has ${length} bytes, the buffer for it has ${into.length}`);
    }
    return { entry, target: into ?? new Uint8Array(length) };
  }
  return {
    ...header,
    path,
    async read(name, into) {
      const { entry, target } = plan(name, into);
      await readFully(file, target, entry.begin, path);
      return target;
    },
    readSync(name, into) {
      const { entry, target } = plan(name, into);
      readFullySync(file.fd, target, entry.begin, path);
      return target;
    },
    close: () => file.close(),
  };
}

async function readFully(file: FileHandle, target: Uint8Array, position: number, path: string): Promise<void> {
  for (let done = 0; done < target.length; ) {
    const length = Math.min(target.length - done, maxReadBytes);
    const { bytesRead } = await file.read(target, done, length, position + done).catch((error: unknown) => {
      throw createFileError(error, path, "read");
    });
    if (bytesRead === 0) throw createTruncatedFileError(path);
    done += bytesRead;
  }
}

function readFullySync(descriptor: number, target: Uint8Array, position: number, path: string): void {
  for (let done = 0; done < target.length; ) {
    let bytesRead: number;
    try {
      bytesRead = readSync(descriptor, target, done, Math.min(target.length - done, maxReadBytes), position + done);
    } catch (error) {
      throw createFileError(error, path, "read");
    }
    if (bytesRead === 0) throw createTruncatedFileError(path);
    done += bytesRead;
  }
}

function createTruncatedFileError(path: string): UserError {
  return new UserError(`${path}: the file became shorter while it was read; is something else writing it?`);
}
