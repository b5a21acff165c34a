import { isUtf8 } from "node:buffer";
import { readFile } from "node:fs/promises";
import { basename, extname } from "node:path";
import { CsvError, parse } from "csv-parse/sync";
import { getErrorMessage, UserError } from "../errors.js";
import { createFileError, readJson } from "../files.js";
import { readParquet } from "./parquet.js";

/** One row of a table, with the line (or row) it stands on; `problem` says why its values could not be read. */
export interface DataRow {
  readonly at: number;
  readonly values: Readonly<Record<string, unknown>>;
  readonly problem?: string;
}

/** A file of rows with named columns. */
export interface DataTable {
  readonly file: string;
  readonly columns: readonly string[];
  /** What `Row.at` counts. */
  readonly unit: "line" | "row";
  readonly rows: readonly DataRow[];
  /** Names that the file itself gives to the integers of a column (Parquet written by the datasets library). */
  readonly classNames?: Readonly<Record<string, readonly string[]>>;
}

/** The endings of the files that `readTable` reads. */
export const tableExtensions = [".tsv", ".csv", ".jsonl", ".ndjson", ".json", ".parquet"] as const;

/** Reads a table by its file's ending: .tsv (no quoting, as GLUE's), .csv, .jsonl, .json (an array), .parquet. */
export async function readTable(file: string): Promise<DataTable> {
  const table = await readByExtension(file);
  if (table.rows.length === 0) throw new UserError(`${file} holds no rows; expected a header and at least one example`);
  return table;
}

async function readByExtension(file: string): Promise<DataTable> {
  const extension = extname(file).toLowerCase();
  switch (extension) {
    case ".tsv":
      return parseTsv(file, await readUtf8(file));
    case ".csv":
      return parseCsv(file, await readUtf8(file));
    case ".jsonl":
    case ".ndjson":
      return parseJsonLines(file, await readUtf8(file));
    case ".json":
      return parseJsonArray(file, await readJson(file, "a table of examples"));
    case ".parquet":
      return readParquet(file);
    default:
      throw new UserError(
        `${file}: expected a file that ends in ${tableExtensions.join(", ")}, received ${extension || "no ending"}`,
      );
  }
}

/** A file's text, which must be UTF-8; a byte-order mark is dropped. */
export async function readUtf8(file: string): Promise<string> {
  const bytes = await readFile(file).catch((error: unknown) => {
    throw createFileError(error, file, "read");
  });
  if (!isUtf8(bytes)) {
    throw new UserError(
      `${file} is not UTF-8: line ${findFirstBadLine(bytes)} has bytes that are no text in it. ` +
        `Convert it first, for instance: iconv -f WINDOWS-1252 -t UTF-8 ${basename(file)} > fixed${extname(file)}`,
    );
  }
  return bytes.toString("utf8").replace(/^\uFEFF/, "");
}

function findFirstBadLine(bytes: Buffer): number {
  // No UTF-8 sequence holds the byte of a newline, so lines can be tried one by one.
  for (let line = 1, start = 0; ; line++) {
    const end = bytes.indexOf(0x0a, start);
    if (!isUtf8(bytes.subarray(start, end < 0 ? undefined : end)) || end < 0) return line;
    start = end + 1;
  }
}

function parseTsv(file: string, text: string): DataTable {
  const [header = "", ...lines] = text.split(/\r?\n/);
  const columns = header.split("\t");
  const rows = lines.flatMap((line, index) => (line === "" ? [] : [toRow(columns, line.split("\t"), index + 2)]));
  return { file, columns, unit: "line", rows };
}

function parseCsv(file: string, text: string): DataTable {
  const header = text.slice(0, (text.indexOf("\n") + 1 || text.length + 1) - 1);
  // Spreadsheets of many countries write semicolons.
  const delimiter = !header.includes(",") && header.includes(";") ? ";" : ",";
  let records: { record: string[]; info: { lines: number } }[];
  try {
    records = parse(text, {
      delimiter,
      // Left to itself the parser takes the first line's end for every line's; files put together by hand have both.
      record_delimiter: text.includes("\n") ? ["\r\n", "\n"] : "\r",
      info: true,
      relax_column_count: true,
      skip_empty_lines: true,
    }) as unknown as typeof records;
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    throw new UserError(
      `${file}: its quotes do not match: ${error.message}. In CSV, a quote inside a quoted field is written twice ("")`,
    );
  }
  const columns = records[0]?.record ?? [];
  const rows = records.slice(1).map(({ record, info }) => toRow(columns, record, info.lines));
  return { file, columns, unit: "line", rows };
}

function toRow(columns: readonly string[], fields: readonly string[], at: number): DataRow {
  if (fields.length !== columns.length) {
    return { at, values: {}, problem: `has ${fields.length} fields where the header has ${columns.length}` };
  }
  return { at, values: Object.fromEntries(columns.map((column, index) => [column, fields[index]])) };
}

function parseJsonLines(file: string, text: string): DataTable {
  const rows = text.split(/\r?\n/).flatMap((line, index) => {
    if (line.trim() === "") return [];
    try {
      return [toObjectRow(JSON.parse(line), index + 1)];
    } catch (error) {
      return [{ at: index + 1, values: {}, problem: `is not JSON: ${getErrorMessage(error)}` }];
    }
  });
  return { file, columns: collectColumns(rows), unit: "line", rows };
}

function parseJsonArray(file: string, value: unknown): DataTable {
  if (!Array.isArray(value))
    throw new UserError(`${file}: expected an array of objects; one object a line belongs into a .jsonl file`);
  const rows = value.map((item: unknown, index) => toObjectRow(item, index + 1));
  return { file, columns: collectColumns(rows), unit: "row", rows };
}

/** A row from a value that should be an object. */
export function toObjectRow(value: unknown, at: number): DataRow {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return { at, values: {}, problem: "is not an object with named fields" };
  return { at, values: value as Record<string, unknown> };
}

/** Every field name that occurs, in the order of first occurrence. */
export function collectColumns(rows: readonly DataRow[]): string[] {
  return [...new Set(rows.flatMap((row) => Object.keys(row.values)))];
}
