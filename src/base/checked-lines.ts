import { createHash } from "node:crypto";
import { appendFileSync, closeSync, existsSync, fsyncSync, ftruncateSync, mkdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import type { z } from "zod";
import { UserError } from "./errors.js";
import { createFileError, exists, openForAppending, readFolder, replaceFile, streamFile } from "./files.js";
import { validate } from "./validate.js";

/** The first line of a file: everything that decides the lines below it. */
interface Header {
  readonly examples: number;
}

/** The format of a file of JSON lines with checksums. A resumed command needs the same header. */
export interface LineFormat<Content extends Header> {
  readonly format: string;
  readonly version: number;
  readonly header: z.ZodType<Content>;
  /** Keys of the header whose objects are compared key by key. */
  readonly parts: readonly (keyof Content)[];
}

const checksumPrefix = ',"checksum":"';
const checksumLength = 32;
const suffixLength = checksumPrefix.length + checksumLength + 2;

/** Chains checksums: each covers its line and the previous checksum, so every edit is detected. */
function computeChecksum(previous: string, body: Buffer): string {
  return createHash("sha256").update(previous).update(body).digest("hex").slice(0, checksumLength);
}

/** Parses a line, or returns undefined if it does not match its checksum. */
function parseLine(line: Buffer, previous: string): { readonly value: unknown; readonly checksum: string } | undefined {
  const body = line.subarray(0, -suffixLength);
  const checksum = computeChecksum(previous, body);
  if (line.toString("latin1", body.length) !== `${checksumPrefix}${checksum}"}`) return undefined;
  try {
    return { value: JSON.parse(`${body.toString()}}`), checksum };
  } catch {
    return undefined;
  }
}

function formatLine(value: unknown, previous: string): { readonly line: string; readonly checksum: string } {
  const body = JSON.stringify(value).slice(0, -1);
  const checksum = computeChecksum(previous, Buffer.from(body));
  return { line: `${body}${checksumPrefix}${checksum}"}\n`, checksum };
}

export interface LineEntry {
  /** Line number, starting at 1. The header is line 1. */
  readonly line: number;
  /** Offset of its end in bytes. */
  readonly endOffset: number;
  readonly checksum: string;
  /** Undefined if the line is incomplete or was changed. */
  readonly value: unknown;
}

/** Reads a file line by line in constant memory. It stops after a damaged line. */
export async function* readLineEntries(path: string): AsyncGenerator<LineEntry> {
  let checksum = "";
  let endOffset = 0;
  let line = 0;
  for await (const bytes of splitLines(path)) {
    endOffset += bytes.length;
    line++;
    const isComplete = bytes.at(-1) === 0x0a;
    const parsed = isComplete ? parseLine(bytes.subarray(0, -1), checksum) : undefined;
    checksum = parsed?.checksum ?? checksum;
    yield { line, endOffset, checksum, value: parsed?.value };
    if (!parsed) return;
  }
}

/** Yields lines with their line feed. The last line may lack it. */
async function* splitLines(path: string): AsyncGenerator<Buffer> {
  let rest: Buffer[] = [];
  for await (const chunk of streamFile(path, "the journal", { kind: "journal" })) {
    let start = 0;
    for (let at = chunk.indexOf(0x0a); at !== -1; at = chunk.indexOf(0x0a, start)) {
      yield Buffer.concat([...rest, chunk.subarray(start, at + 1)]);
      rest = [];
      start = at + 1;
    }
    if (start < chunk.length) rest.push(chunk.subarray(start));
  }
  if (rest.length > 0) yield Buffer.concat(rest);
}

/** Returns true if a value is the header of a format, of any version. */
export function isHeaderOf(value: unknown, { format }: Pick<LineFormat<Header>, "format">): boolean {
  return typeof value === "object" && value !== null && "format" in value && value.format === format;
}

/** The files of a format in a folder, in the order of their names. */
export async function findLineFiles(folder: string, format: Pick<LineFormat<Header>, "format">): Promise<string[]> {
  if (!(await exists(folder))) return [];
  const names = (await readFolder(folder)).map(({ name }) => name).filter((name) => name.endsWith(".jsonl"));
  const found: string[] = [];
  for (const path of names.sort().map((name) => join(folder, name)))
    if (await isLineFile(path, format)) found.push(path);
  return found;
}

/** Returns true if the first line of a file is the header of a format, of any version. */
export async function isLineFile(path: string, format: Pick<LineFormat<Header>, "format">): Promise<boolean> {
  for await (const { value } of readLineEntries(path)) return isHeaderOf(value, format);
  return false;
}

/** Returns the header of a file from its first line. */
export function parseHeader<Content extends Header>(
  { line, value }: LineEntry,
  path: string,
  { format, version, header }: LineFormat<Content>,
): Content {
  if (line === 1 && isHeaderOf(value, { format }) && (value as LineFormat<Content>).version === version) {
    validate(header, value, `${path}:1`);
    return value as Content;
  }
  const name = format.replace("temper ", "");
  throw new UserError(
    `${path}:1: expected the header of ${/^[aeiou]/.test(name) ? "an" : "a"} ${name}, version ${version}. ` +
      "Run the command again with this version, or restore the file.",
  );
}

export async function readHeader<Content extends Header>(path: string, format: LineFormat<Content>): Promise<Content> {
  for await (const entry of readLineEntries(path)) return parseHeader(entry, path, format);
  throw new UserError(`${path} is empty. Run the command that wrote it again.`);
}

/**
 * Reads the lines below the header in order, each checked against its checksum and its schema.
 * `command` continues the file if a crash truncated it.
 */
export async function* readCheckedLines<Content extends Header, Line>(
  path: string,
  format: LineFormat<Content>,
  schema: z.ZodType<Line>,
  command: string,
): AsyncGenerator<{ readonly header: Content; readonly line: number; readonly value: Line }> {
  let header: Content | undefined;
  for await (const entry of readLineEntries(path)) {
    const location = `${path}:${entry.line}`;
    if (!header) {
      header = parseHeader(entry, path, format);
      continue;
    }
    if (entry.value === undefined)
      throw new UserError(
        `${location}: the line does not match its checksum. If a crash truncated it, continue with ${command}; ` +
          "otherwise restore the file.",
      );
    validate(schema, entry.value, location);
    yield { header, line: entry.line, value: entry.value as Line };
  }
  if (!header) throw new UserError(`${path} is empty. Run the command that wrote it again.`);
}

/** Appends lines to a file. Each is on disk before the next one is written. */
export class LineWriter<Line extends object> {
  readonly #file: number;
  #checksum: string;

  private constructor(
    readonly path: string,
    file: number,
    checksum: string,
    /** Number of lines below the header when the file was opened. */
    readonly count: number,
  ) {
    this.#file = file;
    this.#checksum = checksum;
  }

  /**
   * Starts a file, or with `resume` continues one with the same header. It drops an incomplete last
   * line. A file of fewer examples is extended if they are the first ones of the sample:
   * `createHeader` returns the header of a sample of that size.
   */
  static async open<Line extends object, Content extends Header>(
    path: string,
    format: LineFormat<Content>,
    header: Content,
    resume: boolean,
    createHeader = (examples: number): Content => ({ ...header, examples }),
  ): Promise<LineWriter<Line>> {
    const hasContent = existsSync(path) && statSync(path).size > 0;
    if (hasContent && !resume)
      throw new UserError(
        `${path} already exists. Pass --resume to continue or extend it, or choose a different --out.`,
      );
    const { endOffset, checksum, count } = hasContent
      ? await findResumePoint(path, format, header, createHeader)
      : emptyFile;
    try {
      mkdirSync(dirname(path), { recursive: true });
      const file = openForAppending(path);
      ftruncateSync(file, endOffset);
      const writer = new LineWriter<Line>(path, file, checksum, count);
      if (endOffset === 0) writer.#append(addFormat(format, header));
      return writer;
    } catch (error) {
      throw createFileError(error, path, "write the journal");
    }
  }

  append(line: Line): void {
    this.#append(line);
  }

  #append(value: object): void {
    const { line, checksum } = formatLine(value, this.#checksum);
    try {
      appendFileSync(this.#file, line);
      fsyncSync(this.#file);
    } catch (error) {
      throw createFileError(error, this.path, "write the journal");
    }
    this.#checksum = checksum;
  }

  close(): void {
    closeSync(this.#file);
  }
}

function addFormat<Content extends Header>({ format, version }: LineFormat<Content>, header: Content): Content {
  return { format, version, ...header };
}

const emptyFile = { endOffset: 0, checksum: "", count: 0 };

/**
 * Finds where to continue. A crash can only truncate the last line, so other damage is an error.
 */
async function findResumePoint<Content extends Header>(
  path: string,
  format: LineFormat<Content>,
  header: Content,
  createHeader: (examples: number) => Content,
): Promise<typeof emptyFile> {
  let last = emptyFile;
  let isSmaller = false;
  for await (const entry of readLineEntries(path)) {
    const { line, endOffset, checksum, value } = entry;
    if (value === undefined) {
      if (endOffset === statSync(path).size) break;
      throw new UserError(
        `${path}:${line}: the line does not match its checksum. Restore the file, or choose a different --out.`,
      );
    }
    if (line === 1) {
      const found = parseHeader(entry, path, format);
      isSmaller = found.examples < header.examples;
      const expected = addFormat(format, isSmaller ? createHeader(found.examples) : header);
      checkSameHeader(found, expected, format.parts, path);
    }
    last = { endOffset, checksum, count: line - 1 };
  }
  return isSmaller ? await replaceHeader(path, addFormat(format, header), last.count) : last;
}

/** Writes a file again with another header and the first `count` lines. */
async function replaceHeader(path: string, header: object, count: number): Promise<typeof emptyFile> {
  let [endOffset, checksum] = [0, ""];
  await replaceFile(path, async (file) => {
    for await (const entry of readLineEntries(path)) {
      if (entry.line > count + 1) break;
      const next = formatLine(entry.line === 1 ? header : entry.value, checksum);
      await file.appendFile(next.line);
      endOffset += Buffer.byteLength(next.line);
      checksum = next.checksum;
    }
  });
  return { endOffset, checksum, count };
}

/**
 * Rejects a file of a different model, table or option, and names the first difference.
 */
export function checkSameHeader<Content extends Header>(
  found: Content,
  expected: Content,
  parts: readonly (keyof Content)[],
  path: string,
  remedy?: string,
): void {
  const flatten = (header: Content): Record<string, unknown> => {
    const rest = Object.entries(header).filter(([key]) => !parts.includes(key as keyof Content));
    return Object.assign(Object.fromEntries(rest), ...parts.map((part) => header[part]));
  };
  const [before, now] = [flatten(found), flatten(expected)];
  for (const name of Object.keys({ ...before, ...now })) {
    const [was, is] = [before, now].map((values) => JSON.stringify(values[name]) ?? "none");
    if (was !== is)
      throw new UserError(
        `${path} was written with a different ${name}: ${was}, now ${is}. ` +
          `${remedy ?? `Use the same ${name}, or choose a different --out`}.`,
      );
  }
}
