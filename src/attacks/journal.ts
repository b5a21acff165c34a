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
import { createFileError } from "../files.js";
import type { AttackResult } from "./result.js";

/** What a journal was made with: a resumed run must have the same. */
export interface JournalHeader {
  readonly attack: string;
  readonly options: unknown;
  /** SHA-256 of model, tokenizer, substitutions, …, by name. */
  readonly hashes: Readonly<Record<string, string>>;
  /** Whatever else decides the results (task, constraints, budget, …). */
  readonly settings: Readonly<Record<string, unknown>>;
  readonly seed: number | string;
  /** How many examples the run has. */
  readonly examples: number;
}

const journalFormat = { format: "temper attack journal", version: 1 };
const checksumPrefix = ',"checksum":"';
const checksumLength = 32;
const suffixLength = checksumPrefix.length + checksumLength + 2;

/** A line's sum covers its bytes and the sum before it, so that no line can be changed, dropped or moved unseen. */
function computeChecksum(previous: string, body: Buffer): string {
  return createHash("sha256").update(previous).update(body).digest("hex").slice(0, checksumLength);
}

/** Puts the checksum at the end of a JSON object's text. */
function appendChecksum(value: object, previous: string): { readonly line: string; readonly sum: string } {
  const body = JSON.stringify(value).slice(0, -1);
  const sum = computeChecksum(previous, Buffer.from(body));
  return { line: `${body}${checksumPrefix}${sum}"}\n`, sum };
}

/** The sealed object of a line, or undefined where anything in it was changed. */
function verifyChecksum(line: Buffer, previous: string): { readonly value: unknown; readonly sum: string } | undefined {
  const body = line.subarray(0, -suffixLength);
  const sum = computeChecksum(previous, body);
  if (line.toString("latin1", body.length) !== `${checksumPrefix}${sum}"}`) return undefined;
  return { value: JSON.parse(`${body.toString()}}`), sum };
}

/** One line of a journal file: where it stands, and its content unless it is damaged. */
export interface JournalEntry {
  /** From 1; the header is line 1. */
  readonly line: number;
  /** Bytes up to its end. */
  readonly endOffset: number;
  readonly checksum: string;
  /** The header for line 1, else a result; undefined where the line is torn or was edited. */
  readonly value: unknown;
}

/** Reads a journal line by line in constant memory; after a damaged line it stops. */
export async function* readJournalEntries(path: string): AsyncGenerator<JournalEntry> {
  let sum = "";
  let end = 0;
  let line = 0;
  for await (const bytes of splitLines(path)) {
    end += bytes.length;
    line++;
    const isWhole = bytes.at(-1) === 0x0a;
    const opened = isWhole ? verifyChecksum(bytes.subarray(0, -1), sum) : undefined;
    yield { line, endOffset: end, checksum: opened?.sum ?? sum, value: opened?.value };
    if (!opened) return;
    sum = opened.sum;
  }
}

/** Pieces that end with a line feed; the last may lack it. */
async function* splitLines(path: string): AsyncGenerator<Buffer> {
  let rest: Buffer[] = [];
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

/** Checks that a journal's first line is the header of one. */
export function parseHeader(entry: JournalEntry, path: string): JournalHeader {
  const value = entry.value as (JournalHeader & typeof journalFormat) | undefined;
  if (entry.line === 1 && value?.format === journalFormat.format && value.version === journalFormat.version)
    return value;
  throw new UserError(
    `${path}:1: expected the header of an attack journal (version ${journalFormat.version}); the file is something else, or its first line was changed`,
  );
}

/** A journal's header and results in order; any damage is a UserError with the line. */
export async function* readJournal(
  path: string,
): AsyncGenerator<{ readonly header: JournalHeader; readonly line: number; readonly result: AttackResult }> {
  let header: JournalHeader | undefined;
  for await (const entry of readJournalEntries(path)) {
    if (!header) {
      header = parseHeader(entry, path);
      continue;
    }
    if (entry.value === undefined) {
      throw new UserError(
        `${path}:${entry.line}: this line does not match its checksum: it was changed, or cut off by a crash (then --resume mends it)`,
      );
    }
    yield { header, line: entry.line, result: entry.value as AttackResult };
  }
  if (!header) throw new UserError(`${path}: the journal is empty; run the attack again`);
}

/** Appends results, each on the disk before the next; opened again it continues where a killed run stopped. */
export class JournalWriter {
  readonly #file: number;
  #sum: string;

  private constructor(
    readonly path: string,
    file: number,
    sum: string,
    /** Results that were there when it was opened. */
    readonly count: number,
  ) {
    this.#file = file;
    this.#sum = sum;
  }

  /** Starts a journal, or with `resume` continues one of the same header; a torn last line is dropped. */
  static async open(
    path: string,
    header: JournalHeader,
    options: { readonly resume?: boolean } = {},
  ): Promise<JournalWriter> {
    const isThere = existsSync(path) && statSync(path).size > 0;
    if (isThere && !options.resume)
      throw new UserError(`${path}: a journal is there already; continue it with --resume, or choose another --out`);
    const found = isThere ? await findResumePoint(path, header) : { end: 0, sum: "", count: 0 };
    try {
      mkdirSync(dirname(path), { recursive: true });
      const file = openSync(path, "a");
      ftruncateSync(file, found.end);
      const writer = new JournalWriter(path, file, found.sum, found.count);
      if (found.end === 0) writer.#write({ ...journalFormat, ...header });
      return writer;
    } catch (error) {
      throw createFileError(error, path, "write the journal");
    }
  }

  append(result: AttackResult): void {
    this.#write(result);
  }

  close(): void {
    closeSync(this.#file);
  }

  #write(value: object): void {
    const { line, sum } = appendChecksum(value, this.#sum);
    try {
      appendFileSync(this.#file, line);
      fsyncSync(this.#file);
    } catch (error) {
      throw createFileError(error, this.path, "write the journal");
    }
    this.#sum = sum;
  }
}

/** Where to continue. Only the last line can be torn by a crash: damage before it is not ours to mend. */
async function findResumePoint(
  path: string,
  header: JournalHeader,
): Promise<{ end: number; sum: string; count: number }> {
  let good = { end: 0, sum: "", count: 0 };
  for await (const entry of readJournalEntries(path)) {
    if (entry.value === undefined) {
      if (entry.endOffset === statSync(path).size) return good;
      throw new UserError(
        `${path}:${entry.line}: this line was changed: it does not match its checksum; restore the file, or choose another --out`,
      );
    }
    if (entry.line === 1) checkSameHeader(parseHeader(entry, path), header, path);
    good = { end: entry.endOffset, sum: entry.checksum, count: entry.line - 1 };
  }
  return good;
}

/** A journal of another model, table or option must not be continued: the first difference is named. */
function checkSameHeader(found: JournalHeader, wanted: JournalHeader, path: string): void {
  const flat = (header: JournalHeader) => ({
    attack: header.attack,
    options: header.options,
    seed: header.seed,
    examples: header.examples,
    ...header.settings,
    ...header.hashes,
  });
  const [theirs, ours] = [flat(found), flat(wanted)] as [Record<string, unknown>, Record<string, unknown>];
  for (const name of new Set([...Object.keys(theirs), ...Object.keys(ours)])) {
    const [was, is] = [JSON.stringify(theirs[name]) ?? "nothing", JSON.stringify(ours[name]) ?? "nothing"];
    if (was !== is)
      throw new UserError(
        `${path}: the journal was made with another ${name}: ${was} there, ${is} now; use the same, or choose another --out`,
      );
  }
}
