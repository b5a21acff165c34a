import { createHash } from "node:crypto";
import {
  appendFileSync,
  closeSync,
  existsSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  statSync,
} from "node:fs";
import { dirname } from "node:path";
import { z } from "zod";
import { type JournalEntry, readJournalEntries } from "../attacks/journal.js";
import { UserError } from "../errors.js";
import { createFileError, replaceFile } from "../files.js";
import { validate } from "../validate.js";
import { type CertificateKind, type CertificateLine, certificateOptionsSchema } from "./kinds.js";

const headerSchema = z.object({
  format: z.literal("temper certificate journal"),
  version: z.literal(1),
  /** What is certified and how, so that the journal can be replayed. */
  certificate: certificateOptionsSchema,
  /** SHA-256 of model, tokenizer and examples. */
  hashes: z.record(z.string(), z.string()),
  /** Everything else that decides the results: task, split, precision. */
  settings: z.record(z.string(), z.unknown()),
  seed: z.number(),
  /** Number of texts to certify. */
  examples: z.int().min(1),
});

/**
 * Everything that decides the lines of a journal. A journal is continued only with the same header.
 */
export type CertificateHeader = z.output<typeof headerSchema>;

/** Creates the header of a journal. */
export function createCertificateHeader(content: Omit<CertificateHeader, "format" | "version">): CertificateHeader {
  return { format: "temper certificate journal", version: 1, ...content };
}

/** Whether a file is a journal of certificates. */
export async function isCertificateJournal(path: string): Promise<boolean> {
  for await (const { value } of readJournalEntries(path)) return headerSchema.safeParse(value).success;
  return false;
}

/** Reads the header of a journal of certificates. */
export async function readCertificateHeader(path: string): Promise<CertificateHeader> {
  for await (const entry of readJournalEntries(path)) return parseHeader(entry, path);
  throw new UserError(`${path}: the journal is empty. Run temper certify again.`);
}

/**
 * Reads the lines of a journal of certificates in order. Each is checked against its checksum and
 * the schema of its kind.
 */
export async function* readCertificates<Line extends CertificateLine>(
  path: string,
  kind: CertificateKind<Line>,
): AsyncGenerator<Line> {
  for await (const { line, value } of readJournalEntries(path)) {
    if (line === 1) continue;
    if (value === undefined)
      throw new UserError(
        `${path}:${line}: the line does not match its checksum. If a crash truncated it, continue with ` +
          "temper certify … --resume; otherwise restore the file.",
      );
    yield validate(kind.lineSchema, value, `${path}:${line}`);
  }
}

function parseHeader({ line, value }: JournalEntry, path: string): CertificateHeader {
  const { format, version } = headerSchema.shape;
  const found = value as Record<string, unknown> | undefined;
  if (line === 1 && found && format.safeParse(found.format).success && version.safeParse(found.version).success)
    return validate(headerSchema, found, `${path}:1`);
  throw new UserError(
    `${path}:1: expected the header of a certificate journal, version ${version.value}. Run temper certify again with ` +
      "this version, or restore the file.",
  );
}

/** Each checksum covers its line and the one before, so every change is detected. */
function formatLine(value: object, previous: string): { readonly text: string; readonly checksum: string } {
  const body = JSON.stringify(value).slice(0, -1);
  const checksum = createHash("sha256").update(previous).update(body).digest("hex").slice(0, 32);
  return { text: `${body},"checksum":"${checksum}"}\n`, checksum };
}

interface ResumePoint {
  readonly endOffset: number;
  readonly checksum: string;
  /** The number of lines after the header. */
  readonly count: number;
}

/** Appends certificates to a journal. Each is on disk before the next one is written. */
export class CertificateWriter {
  readonly #file: number;
  #checksum: string;

  private constructor(
    readonly path: string,
    file: number,
    checksum: string,
    /** Number of certificates in the file when it was opened. */
    readonly count: number,
  ) {
    this.#file = file;
    this.#checksum = checksum;
  }

  /**
   * Starts a journal, or with `resume` continues one with the same header. It drops an incomplete
   * last line. `createHeader` returns the header of a sample of a size: a journal of fewer texts is
   * extended if they are the first of the sample.
   */
  static async open(
    path: string,
    examples: number,
    createHeader: (examples: number) => CertificateHeader,
    resume: boolean,
  ): Promise<CertificateWriter> {
    const hasContent = existsSync(path) && statSync(path).size > 0;
    if (hasContent && !resume)
      throw new UserError(
        `${path} already exists. Pass --resume to continue or extend it, or choose a different --out.`,
      );
    const { endOffset, checksum, count } = hasContent
      ? await findResumePoint(path, examples, createHeader)
      : { endOffset: 0, checksum: "", count: 0 };
    try {
      mkdirSync(dirname(path), { recursive: true });
      const file = openSync(path, "a");
      ftruncateSync(file, endOffset);
      const writer = new CertificateWriter(path, file, checksum, count);
      if (endOffset === 0) writer.append(createHeader(examples));
      return writer;
    } catch (error) {
      throw createFileError(error, path, "write the journal");
    }
  }

  append(value: CertificateLine | CertificateHeader): void {
    const { text, checksum } = formatLine(value, this.#checksum);
    try {
      appendFileSync(this.#file, text);
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

/**
 * Finds where to continue. A crash can only truncate the last line, so other damage is an error.
 */
async function findResumePoint(
  path: string,
  examples: number,
  createHeader: (examples: number) => CertificateHeader,
): Promise<ResumePoint> {
  let last: ResumePoint = { endOffset: 0, checksum: "", count: 0 };
  let recorded = examples;
  for await (const { line, endOffset, checksum, value } of readJournalEntries(path)) {
    if (value === undefined) {
      if (endOffset === statSync(path).size) break;
      throw new UserError(
        `${path}:${line}: the line does not match its checksum. Restore the file, or choose a different --out.`,
      );
    }
    if (line === 1) {
      const found = parseHeader({ line, endOffset, checksum, value }, path);
      recorded = Math.min(found.examples, examples);
      checkSameHeader(found, createHeader(recorded), path);
    }
    last = { endOffset, checksum, count: line - 1 };
  }
  return recorded < examples ? await replaceHeader(path, createHeader(examples), last.count) : last;
}

/** Writes a journal again with another header and the first `count` certificates. */
async function replaceHeader(path: string, header: CertificateHeader, count: number): Promise<ResumePoint> {
  let [endOffset, checksum] = [0, ""];
  await replaceFile(path, async (file) => {
    for await (const { line, value } of readJournalEntries(path)) {
      if (line > count + 1) break;
      const next = formatLine(line === 1 ? header : (value as object), checksum);
      await file.appendFile(next.text);
      endOffset += Buffer.byteLength(next.text);
      checksum = next.checksum;
    }
  });
  return { endOffset, checksum, count };
}

/** Rejects a journal of another model, sample or option, and names the first difference. */
function checkSameHeader(found: CertificateHeader, expected: CertificateHeader, path: string): void {
  const flatten = ({ settings, hashes, certificate, ...rest }: CertificateHeader): Record<string, unknown> => ({
    ...rest,
    ...settings,
    ...certificate,
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
