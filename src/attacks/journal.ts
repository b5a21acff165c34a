import { createHash } from "node:crypto";
import {
  appendFileSync,
  closeSync,
  createReadStream,
  existsSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  statSync,
} from "node:fs";
import { dirname } from "node:path";
import { UserError } from "../errors.js";
import { checkRegularFile, createFileError, replaceFile } from "../files.js";
import { validate } from "../validate.js";
import { attackResultSchema, journalHeaderSchema } from "./journal-schema.js";
import type { AttackResult } from "./result.js";

/** Everything that determines the results of a journal. A resumed run must have the same header. */
export interface JournalHeader {
  readonly attack: string;
  readonly options: unknown;
  /** SHA-256 of model, tokenizer, substitutions, …, by name. */
  readonly hashes: Readonly<Record<string, string>>;
  /** Everything else that determines the results (task, constraints, budget, …). */
  readonly settings: Readonly<Record<string, unknown>>;
  readonly seed: number | string;
  /** Number of examples to attack. */
  readonly examples: number;
}

/** What a file of lines with checksums contains. */
export interface LineFormat {
  readonly format: string;
  readonly version: number;
}

const journalFormat: LineFormat = { format: "temper attack journal", version: 3 };
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

/** Formats a value as a line with its checksum. */
function formatLine(value: unknown, previous: string): { readonly line: string; readonly checksum: string } {
  const body = JSON.stringify(value).slice(0, -1);
  const checksum = computeChecksum(previous, Buffer.from(body));
  return { line: `${body}${checksumPrefix}${checksum}"}\n`, checksum };
}

/** One line of a journal file. */
export interface JournalEntry {
  /** Line number, starting at 1. The header is line 1. */
  readonly line: number;
  /** Offset of its end in bytes. */
  readonly endOffset: number;
  readonly checksum: string;
  /**
   * The header for line 1, otherwise a result. Undefined if the line is incomplete or was changed.
   */
  readonly value: unknown;
}

/** Reads a journal line by line in constant memory. It stops after a damaged line. */
export async function* readJournalEntries(path: string): AsyncGenerator<JournalEntry> {
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
  await checkRegularFile(path, "the journal");
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: 1 << 18 }) as AsyncIterable<Buffer>) {
      let start = 0;
      for (let at = chunk.indexOf(0x0a); at !== -1; at = chunk.indexOf(0x0a, start)) {
        yield Buffer.concat([...rest, chunk.subarray(start, at + 1)]);
        rest = [];
        start = at + 1;
      }
      if (start < chunk.length) rest.push(chunk.subarray(start));
    }
  } catch (error) {
    throw createFileError(error, path, "read the journal");
  }
  if (rest.length > 0) yield Buffer.concat(rest);
}

/** Returns the header of a journal from its first line. */
export function parseHeader(entry: JournalEntry, path: string, format = journalFormat): JournalHeader {
  const value = entry.value as (JournalHeader & LineFormat) | undefined;
  if (entry.line === 1 && value?.format === format.format && value.version === format.version) {
    validate(journalHeaderSchema, value, `${path}:1`);
    return value;
  }
  throw new UserError(
    `${path}:1: expected the header of an ${format.format.replace("temper ", "")}, version ${format.version}. Run the command again ` +
      "with this version, or restore the file.",
  );
}

/**
 * Reads the attack log (journal) of an attack: one result per example, in order. Every line is
 * checked against its checksum and its schema. An incomplete or changed line raises a UserError.
 *
 * @example
 * for await (const { result } of readJournal("runs/reviews/attacks/pwws.jsonl"))
 *   if (result.outcome === "success") console.log(result.id, result.edits);
 */
export async function* readJournal(
  path: string,
): AsyncGenerator<{ readonly header: JournalHeader; readonly line: number; readonly result: AttackResult }> {
  let header: JournalHeader | undefined;
  for await (const entry of readJournalEntries(path)) {
    if (!header) {
      header = parseHeader(entry, path);
      continue;
    }
    if (entry.value === undefined)
      throw new UserError(
        `${path}:${entry.line}: the line does not match its checksum. If a crash truncated it, continue the attack ` +
          "with temper attack … --resume; otherwise restore the file.",
      );
    validate(attackResultSchema, entry.value, `${path}:${entry.line}`);
    yield { header, line: entry.line, result: entry.value as AttackResult };
  }
  if (!header) throw new UserError(`${path}: the journal is empty. Run the attack again.`);
}

/** Appends results to a journal. Each result is on disk before the next one is written. */
export class JournalWriter<Line extends object = AttackResult> {
  readonly #file: number;
  #checksum: string;

  private constructor(
    readonly path: string,
    file: number,
    checksum: string,
    /** Number of results in the file when it was opened. */
    readonly count: number,
  ) {
    this.#file = file;
    this.#checksum = checksum;
  }

  /**
   * Starts a journal, or with `resume` continues one with the same header. It drops an incomplete
   * last line. A journal of fewer examples is extended if they are the first ones of the sample:
   * `createHeader` returns the header of a sample of that size.
   */
  static async open<Line extends object = AttackResult>(
    path: string,
    header: JournalHeader,
    resume = false,
    createHeader = (examples: number): JournalHeader => ({ ...header, examples }),
    format = journalFormat,
  ): Promise<JournalWriter<Line>> {
    const hasContent = existsSync(path) && statSync(path).size > 0;
    if (hasContent && !resume)
      throw new UserError(
        `${path} already exists. Pass --resume to continue or extend it, or choose a different --out.`,
      );
    const { endOffset, checksum, count } = hasContent
      ? await findResumePoint(path, header, createHeader, format)
      : emptyFile;
    try {
      mkdirSync(dirname(path), { recursive: true });
      const file = openSync(path, "a");
      ftruncateSync(file, endOffset);
      const writer = new JournalWriter<Line>(path, file, checksum, count);
      if (endOffset === 0) writer.append({ ...format, ...header });
      return writer;
    } catch (error) {
      throw createFileError(error, path, "write the journal");
    }
  }

  close(): void {
    closeSync(this.#file);
  }

  append(value: Line | (JournalHeader & LineFormat)): void {
    const { line, checksum } = formatLine(value, this.#checksum);
    try {
      appendFileSync(this.#file, line);
      fsyncSync(this.#file);
    } catch (error) {
      throw createFileError(error, this.path, "write the journal");
    }
    this.#checksum = checksum;
  }
}

const emptyFile = { endOffset: 0, checksum: "", count: 0 };

/**
 * Finds where to continue. A crash can only truncate the last line, so other damage is an error.
 */
async function findResumePoint(
  path: string,
  header: JournalHeader,
  createHeader: (examples: number) => JournalHeader,
  format: LineFormat,
): Promise<typeof emptyFile> {
  let last = emptyFile;
  let isSmaller = false;
  for await (const { line, endOffset, checksum, value } of readJournalEntries(path)) {
    if (value === undefined) {
      if (endOffset === statSync(path).size) break;
      throw new UserError(
        `${path}:${line}: the line does not match its checksum. Restore the file, or choose a different --out.`,
      );
    }
    if (line === 1) {
      const found = parseHeader({ line, endOffset, checksum, value }, path, format);
      isSmaller = found.examples < header.examples;
      checkSameHeader(found, { ...format, ...(isSmaller ? createHeader(found.examples) : header) }, path);
    }
    last = { endOffset, checksum, count: line - 1 };
  }
  return isSmaller ? await replaceHeader(path, header, last.count) : last;
}

/** Writes a journal again with another header and the first `count` results. */
async function replaceHeader(path: string, header: JournalHeader, count: number): Promise<typeof emptyFile> {
  let [endOffset, checksum] = [0, ""];
  await replaceFile(path, async (file) => {
    for await (const entry of readJournalEntries(path)) {
      if (entry.line > count + 1) break;
      const next = formatLine(entry.line === 1 ? { ...journalFormat, ...header } : entry.value, checksum);
      await file.appendFile(next.line);
      endOffset += Buffer.byteLength(next.line);
      checksum = next.checksum;
    }
  });
  return { endOffset, checksum, count };
}

/**
 * Rejects a journal of a different model, substitution table or option, and names the first
 * difference.
 */
function checkSameHeader(found: JournalHeader, expected: JournalHeader, path: string): void {
  const flatten = ({ settings, hashes, ...rest }: JournalHeader): Record<string, unknown> => ({
    ...rest,
    ...settings,
    ...hashes,
  });
  const [before, now] = [flatten(found), flatten(expected)];
  for (const name of Object.keys({ ...before, ...now })) {
    const [was, is] = [before, now].map((values) => JSON.stringify(values[name]) ?? "none");
    if (was !== is)
      throw new UserError(
        `${path} was written with a different ${name}: ${was}, now ${is}. Use the same ${name}, or choose a ` +
          "different --out.",
      );
  }
}
