import { UserError } from "../errors.js";
import { JsonError, parseJson } from "../json.js";

/** Bytes of one element, by the format's names. */
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

export type SafetensorsType = keyof typeof elementSizes;

/** What a file says of one tensor. */
export interface SafetensorsEntry {
  readonly name: string;
  readonly dtype: SafetensorsType;
  readonly shape: readonly number[];
  /** Where its bytes lie, counted from the start of the file; end is exclusive. */
  readonly begin: number;
  readonly end: number;
}

export interface SafetensorsHeader {
  /** By name, in the order of their bytes. */
  readonly entries: ReadonlyMap<string, SafetensorsEntry>;
  readonly metadata: Readonly<Record<string, string>>;
}

/** The end of every message about a file that contradicts itself. */
export const damaged = "the file is damaged or incomplete: get it again";

/** Reads a header and proves it sound: every tensor's range fits its shape, and together they cover the data exactly. */
export function parseHeader(text: string, path: string, dataStart: number, fileSize: number): SafetensorsHeader {
  const header = parseObject(text, path);
  let metadata: Record<string, string> = {};
  const entries: SafetensorsEntry[] = [];
  for (const [name, value] of Object.entries(header)) {
    if (name === "__metadata__") metadata = parseMetadata(value, path);
    else entries.push(parseEntry(name, value, path, dataStart, fileSize));
  }
  entries.sort((a, b) => a.begin - b.begin || a.end - b.end);
  checkCover(entries, path, dataStart, fileSize);
  return { metadata, entries: new Map(entries.map((entry) => [entry.name, entry])) };
}

function parseObject(text: string, path: string): Record<string, unknown> {
  try {
    const header = parseJson(text);
    if (text.startsWith("{") && isObject(header)) return header;
  } catch (error) {
    if (error instanceof JsonError) throw new UserError(`${path}: its header is not valid JSON at ${error.message}; ${damaged}`);
    throw error;
  }
  throw new UserError(`${path}: expected its header to be a JSON object; ${damaged}`);
}

function parseMetadata(value: unknown, path: string): Record<string, string> {
  if (isObject(value) && Object.values(value).every((text) => typeof text === "string")) return value as Record<string, string>;
  throw new UserError(`${path}: expected __metadata__ to map strings to strings; ${damaged}`);
}

function parseEntry(name: string, value: unknown, path: string, dataStart: number, fileSize: number): SafetensorsEntry {
  const where = `${path}: tensor ${quote(name)}`;
  if (!isObject(value)) throw new UserError(`${where}: expected an object with dtype, shape and data_offsets; ${damaged}`);
  const { dtype, shape, data_offsets: offsets } = value;
  if (typeof dtype !== "string" || !isKnownType(dtype)) {
    const known = Object.keys(elementSizes).join(", ");
    throw new UserError(`${where}: unknown type ${quote(JSON.stringify(dtype) ?? "nothing")}; known are ${known}`);
  }
  if (!isSizes(shape)) throw new UserError(`${where}: expected its shape to be whole numbers from 0 to 2^53 - 1; ${damaged}`);
  if (!isSizes(offsets) || offsets.length !== 2) {
    throw new UserError(`${where}: expected data_offsets to be two whole numbers, [begin, end]; ${damaged}`);
  }
  const [begin, end] = offsets as [number, number];
  const dataSize = fileSize - dataStart;
  const expected = byteLength(dtype, shape);
  if (expected === null) throw new UserError(`${where}: its shape ${showShape(shape)} is larger than any file; ${damaged}`);
  if (begin > end || end > dataSize) {
    throw new UserError(`${where}: bytes ${begin} to ${end} do not lie within the ${dataSize} bytes of data; ${damaged}`);
  }
  if (end - begin !== expected) {
    throw new UserError(
      `${where}: ${dtype} of shape ${showShape(shape)} needs ${expected} bytes, its range ${begin} to ${end} has ${end - begin}; ${damaged}`,
    );
  }
  return { name, dtype, shape, begin: dataStart + begin, end: dataStart + end };
}

/** The ranges, sorted, must follow each other: no overlap, no gap, nothing left over. */
function checkCover(entries: readonly SafetensorsEntry[], path: string, dataStart: number, fileSize: number): void {
  let covered = dataStart;
  let previous = "";
  for (const { name, begin, end } of entries) {
    const [from, to] = [begin - dataStart, covered - dataStart];
    if (begin < covered) {
      throw new UserError(
        `${path}: tensor ${quote(name)} begins at byte ${from}, inside ${quote(previous)}, which ends at ${to}; ${damaged}`,
      );
    }
    if (begin > covered) {
      throw new UserError(`${path}: bytes ${to} to ${from}, before tensor ${quote(name)}, belong to no tensor; ${damaged}`);
    }
    covered = end;
    previous = name;
  }
  if (covered < fileSize) {
    throw new UserError(`${path}: ${fileSize - covered} bytes after the last tensor belong to no tensor; ${damaged}`);
  }
}

/** Bytes of a tensor, or null where that is beyond what a number holds exactly. */
export function byteLength(dtype: SafetensorsType, shape: readonly number[]): number | null {
  if (shape.includes(0)) return 0;
  const bytes = shape.reduce((product, extent) => product * extent, elementSizes[dtype]);
  return Number.isSafeInteger(bytes) ? bytes : null;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isKnownType(dtype: string): dtype is SafetensorsType {
  return Object.hasOwn(elementSizes, dtype);
}

function isSizes(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((extent) => Number.isSafeInteger(extent) && extent >= 0);
}

function showShape(shape: readonly number[]): string {
  return shape.length > 16 ? `[${shape.slice(0, 16).join(", ")}, … ${shape.length} extents]` : `[${shape.join(", ")}]`;
}

/** A name from a file as it stands in a message: in quotes, and never a page long. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text);
}
