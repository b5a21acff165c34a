import { readSync } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { UserError } from "../../base/errors.js";
import { createFileError, openRegularFile } from "../../base/files.js";
import { createDamagedError, parseHeader, quoteName, type SafetensorsHeader } from "./safetensors-header.js";

export type { SafetensorsEntry } from "./safetensors-header.js";

/** An open safetensors file with a checked header. Tensors are read on demand. */
export interface SafetensorsFile extends SafetensorsHeader {
  readonly path: string;
  /** Reads the bytes of a tensor (little endian, row-major). */
  readSync(name: string): Uint8Array;
  close(): Promise<void>;
}

/** The limit of the format. It bounds the memory that a malicious file can make us allocate. */
const maxHeaderBytes = 100_000_000;
/** A system call cannot read 2 GiB at once. */
const maxReadBytes = 1 << 30;

export async function openSafetensors(path: string): Promise<SafetensorsFile> {
  if (isPickleFile(path)) throw new UserError(explainPickleRejection([path], dirname(path)));
  const file = await openRegularFile(path, "the weights", { kind: "weights" });
  try {
    const { size } = await file.stat();
    const { text, dataStart } = readHeader(file, path, size);
    return createSafetensorsFile(file, path, parseHeader(text, path, dataStart, size));
  } catch (error) {
    await file.close();
    throw createFileError(error, path, "read");
  }
}

function readHeader(file: FileHandle, path: string, size: number): { text: string; dataStart: number } {
  if (size < 8) throw createDamagedError(path, `expected a safetensors file of at least 8 bytes, found ${size}`);
  const prefix = Buffer.from(readFully(file, 0, 8, path).buffer);
  const length = prefix.readBigUInt64LE();
  if (length > BigInt(maxHeaderBytes)) {
    const isPickle = prefix.toString("latin1").startsWith("PK\x03\x04") || prefix[0] === 0x80;
    if (isPickle) throw new UserError(explainPickleRejection([path], dirname(path)));
    throw createDamagedError(path, `the header claims ${length} bytes, but the format allows ${maxHeaderBytes}`);
  }
  if (length > BigInt(size - 8))
    throw createDamagedError(path, `the header claims ${length} bytes, but only ${size - 8} follow`);
  const header = readFully(file, 8, Number(length), path);
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(header);
    return { text, dataStart: 8 + header.length };
  } catch (error) {
    throw createDamagedError(path, "the header is not UTF-8", { cause: error });
  }
}

function createSafetensorsFile(file: FileHandle, path: string, header: SafetensorsHeader): SafetensorsFile {
  return {
    ...header,
    path,
    readSync(name) {
      const entry = header.entries.get(name);
      if (entry === undefined)
        throw new UserError(`${path} has no tensor ${quoteName(name)} among its ${header.entries.size}`);
      return readFully(file, entry.begin, entry.end - entry.begin, path);
    },
    close: () => file.close(),
  };
}

function readFully(file: FileHandle, position: number, length: number, path: string): Uint8Array<ArrayBuffer> {
  const target = new Uint8Array(length);
  for (let done = 0; done < length; ) {
    let bytesRead: number;
    try {
      bytesRead = readSync(file.fd, target, done, Math.min(length - done, maxReadBytes), position + done);
    } catch (error) {
      throw createFileError(error, path, "read");
    }
    if (bytesRead === 0)
      throw new UserError(`${path}: the file became shorter while it was read. Is another program writing it?`);
    done += bytesRead;
  }
  return target;
}

/** PyTorch's other formats are all pickles, or archives of them. */
export function isPickleFile(path: string): boolean {
  return /\.(bin|pt|pth|ckpt|pkl|pickle)$/i.test(path);
}

/** Explains why pickles are rejected, and how to convert a model (a folder or model ID). */
export function explainPickleRejection(files: readonly string[], model: string): string {
  const names = files.map((file) => basename(file));
  const target = `${basename(model)}-safetensors`;
  const convert = [
    "import transformers as t",
    `c = t.AutoConfig.from_pretrained('${model}')`,
    `getattr(t, c.architectures[0]).from_pretrained('${model}').save_pretrained('${target}')`,
    `t.AutoTokenizer.from_pretrained('${model}').save_pretrained('${target}')`,
  ].join("; ");
  return [
    `${model}: ${names.slice(0, 3).join(", ")} is a pickle, which can run code. Temper reads only safetensors.`,
    `If you trust the file, convert it once and use ${target}:`,
    `  python -c "${convert}"`,
  ].join("\n");
}
