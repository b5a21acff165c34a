import { readSync } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { UserError } from "../../base/errors.js";
import { createFileError, openRegularFile } from "../../base/files.js";
import { JsonError, parseJson } from "../../base/json.js";

export const elementSizes = {
  BOOL: 1,
  U8: 1,
  I8: 1,
  F8_E5M2: 1,
  F8_E4M3: 1,
  F8_E8M0: 1,
  I16: 2,
  U16: 2,
  F16: 2,
  BF16: 2,
  I32: 4,
  U32: 4,
  F32: 4,
  F64: 8,
  I64: 8,
  U64: 8,
  C64: 8,
} as const;

export type SafetensorsDType = keyof typeof elementSizes;

export interface SafetensorsEntry {
  readonly name: string;
  readonly dtype: SafetensorsDType;
  readonly shape: readonly number[];
  /** The byte range, counted from the start of the file. The end is exclusive. */
  readonly begin: number;
  readonly end: number;
}

function createDamagedError(location: string, problem: string, options?: ErrorOptions): UserError {
  return new UserError(
    `${location}: ${problem}. The file is damaged or incomplete. Download it or train the model again.`,
    options,
  );
}

/** Parses and checks a header: ranges fit the shapes and together cover the data exactly. */
function parseHeader(
  text: string,
  path: string,
  dataStart: number,
  fileSize: number,
): Pick<SafetensorsFile, "entries" | "metadata"> {
  const header = parseObject(text, path);
  let metadata: Record<string, string> = {};
  const entries: SafetensorsEntry[] = [];
  for (const [name, value] of Object.entries(header)) {
    if (name === "__metadata__") metadata = parseMetadata(value, path);
    else entries.push(parseEntry(name, value, path, dataStart, fileSize));
  }
  entries.sort((a, b) => a.begin - b.begin || a.end - b.end);
  checkCoverage(entries, path, dataStart, fileSize);
  return { metadata, entries: new Map(entries.map((entry) => [entry.name, entry])) };
}

function parseObject(text: string, path: string): Record<string, unknown> {
  try {
    const header = parseJson(text);
    if (text.startsWith("{") && isObject(header)) return header;
  } catch (error) {
    if (error instanceof JsonError) throw createDamagedError(path, `the header is not valid JSON at ${error.message}`);
    throw error;
  }
  throw createDamagedError(path, "expected a JSON object as header");
}

function parseMetadata(value: unknown, path: string): Record<string, string> {
  if (isObject(value) && Object.values(value).every((text) => typeof text === "string"))
    return value as Record<string, string>;
  throw createDamagedError(path, "expected __metadata__ to map strings to strings");
}

function parseEntry(name: string, value: unknown, path: string, dataStart: number, fileSize: number): SafetensorsEntry {
  const location = `${path}: tensor ${quoteName(name)}`;
  if (!isObject(value)) throw createDamagedError(location, "expected an object with dtype, shape and data_offsets");
  const { dtype, shape, data_offsets: offsets } = value;
  if (typeof dtype !== "string" || !isKnownDType(dtype)) {
    const known = Object.keys(elementSizes).join(", ");
    throw new UserError(
      `${location}: unknown dtype ${quoteName(JSON.stringify(dtype) ?? "nothing")}; expected one of ${known}`,
    );
  }
  if (!isShape(shape)) throw createDamagedError(location, "expected a shape of integers from 0 to 2^53 - 1");
  if (!isShape(offsets) || offsets.length !== 2)
    throw createDamagedError(location, "expected data_offsets to be two integers, [begin, end]");
  const [begin, end] = offsets as [number, number];
  const dataSize = fileSize - dataStart;
  const expected = computeByteLength(dtype, shape);
  if (expected === null) throw createDamagedError(location, `the shape ${formatShape(shape)} is too large`);
  if (begin > end || end > dataSize)
    throw createDamagedError(location, `bytes ${begin} to ${end} are outside the ${dataSize} bytes of data`);
  if (end - begin !== expected)
    throw createDamagedError(
      location,
      `${dtype} of shape ${formatShape(shape)} needs ${expected} bytes, ` +
        `but the range ${begin} to ${end} has ${end - begin}`,
    );
  return { name, dtype, shape, begin: dataStart + begin, end: dataStart + end };
}

/** Checks that the sorted ranges have no overlap and no gap, and reach the end of the file. */
function checkCoverage(entries: readonly SafetensorsEntry[], path: string, dataStart: number, fileSize: number): void {
  let covered = dataStart;
  let previous = "";
  for (const { name, begin, end } of entries) {
    const [from, previousEnd] = [begin - dataStart, covered - dataStart];
    if (begin < covered)
      throw createDamagedError(
        path,
        `tensor ${quoteName(name)} begins at byte ${from}, inside ${quoteName(previous)}, which ends at ${previousEnd}`,
      );
    if (begin > covered)
      throw createDamagedError(path, `bytes ${previousEnd} to ${from} before tensor ${quoteName(name)} are unused`);
    covered = end;
    previous = name;
  }
  if (covered < fileSize)
    throw createDamagedError(path, `${fileSize - covered} bytes after the last tensor are unused`);
}

/** The number of bytes of a tensor, or null if it exceeds the safe integers. */
export function computeByteLength(dtype: SafetensorsDType, shape: readonly number[]): number | null {
  if (shape.includes(0)) return 0;
  const bytes = shape.reduce((product, extent) => product * extent, elementSizes[dtype]);
  return Number.isSafeInteger(bytes) ? bytes : null;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isKnownDType(dtype: string): dtype is SafetensorsDType {
  return Object.hasOwn(elementSizes, dtype);
}

function isShape(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((extent) => Number.isSafeInteger(extent) && extent >= 0);
}

function formatShape(shape: readonly number[]): string {
  return shape.length > 16
    ? `[${shape.slice(0, 16).join(", ")}, … ${shape.length} dimensions]`
    : `[${shape.join(", ")}]`;
}

export function quoteName(text: string): string {
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text);
}

export interface SafetensorsFile {
  readonly entries: ReadonlyMap<string, SafetensorsEntry>;
  readonly metadata: Readonly<Record<string, string>>;
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

function createSafetensorsFile(
  file: FileHandle,
  path: string,
  header: Pick<SafetensorsFile, "entries" | "metadata">,
): SafetensorsFile {
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
