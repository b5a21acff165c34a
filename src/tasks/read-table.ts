import { isUtf8 } from "node:buffer";
import { basename, extname } from "node:path";
import { getErrorMessage, UserError } from "../base/errors.js";
import { readBytes, readJson } from "../base/files.js";
import type { DataRow, DataTable } from "./data-table.js";
import { readParquet } from "./read-parquet.js";

export const tableExtensions: readonly string[] = [".tsv", ".csv", ".jsonl", ".ndjson", ".json", ".parquet"];

/**
 * Reads a table in the format of its extension: TSV (without quoting, as in GLUE), CSV, JSON lines,
 * JSON or Parquet. `csvColumns` names the columns of a CSV file without a header.
 */
export async function readTable(file: string, csvColumns?: readonly string[]): Promise<DataTable> {
  const table = await readByExtension(file, csvColumns);
  if (table.rows.length === 0) throw new UserError(`${file} has no rows. Expected a header and at least one example.`);
  return table;
}

async function readByExtension(file: string, csvColumns?: readonly string[]): Promise<DataTable> {
  const extension = extname(file).toLowerCase();
  switch (extension) {
    case ".tsv":
      return parseTsv(file, await readUtf8(file));
    case ".csv":
      return parseCsv(file, await readUtf8(file), csvColumns);
    case ".jsonl":
    case ".ndjson":
      return parseJsonLines(file, await readUtf8(file));
    case ".json":
      return parseJsonArray(file, await readJson(file, "a table of examples"));
    case ".parquet":
      return readParquet(file);
    default:
      throw new UserError(`${file}: unknown extension. Expected a file that ends in ${tableExtensions.join(", ")}.`);
  }
}

export async function readUtf8(file: string): Promise<string> {
  const bytes = await readBytes(file, "the table");
  const convert = (encoding: string): string =>
    `Convert it first, for example: iconv -f ${encoding} -t UTF-8 ${basename(file)} > fixed${extname(file)}`;
  const mark = bytes.subarray(0, 2).toString("hex");
  if (mark === "fffe" || mark === "feff") throw new UserError(`${file} is UTF-16, not UTF-8. ${convert("UTF-16")}`);
  const zero = bytes.indexOf(0);
  if (zero >= 0) {
    const line = bytes.subarray(0, zero).toString("latin1").split("\n").length;
    throw new UserError(
      `${file}: line ${line} contains a zero byte, so it is not UTF-8 text. If it is UTF-16: ${convert("UTF-16LE")}`,
    );
  }
  if (!isUtf8(bytes))
    throw new UserError(
      `${file} is not UTF-8: line ${findFirstBadLine(bytes)} has invalid bytes. ${convert("WINDOWS-1252")}`,
    );
  return bytes.toString("utf8").replace(/^\uFEFF/, "");
}

function findFirstBadLine(bytes: Buffer): number {
  // The newline byte never occurs inside a UTF-8 sequence, so each line can be checked separately.
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

async function parseCsv(file: string, text: string, columnNames?: readonly string[]): Promise<DataTable> {
  const { CsvError, parse } = await import("csv-parse/sync");
  const header = text.slice(0, (text.indexOf("\n") + 1 || text.length + 1) - 1);
  // In many countries, spreadsheets write semicolons.
  const delimiter = !header.includes(",") && header.includes(";") ? ";" : ",";
  let records: { record: string[]; info: { lines: number } }[];
  try {
    records = parse(text, {
      delimiter,
      // Some files mix line endings.
      record_delimiter: text.includes("\n") ? ["\r\n", "\n"] : "\r",
      info: true,
      relax_column_count: true,
      skip_empty_lines: true,
    }) as unknown as typeof records;
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    throw new UserError(
      `${file}: unbalanced quotes: ${error.message}. In CSV, write a quote inside a quoted field twice ("").`,
    );
  }
  const columns = columnNames ?? records[0]?.record ?? [];
  const rows = records.slice(columnNames ? 0 : 1).map(({ record, info }) => toRow(columns, record, info.lines));
  return { file, columns, unit: "line", rows };
}

function toRow(columns: readonly string[], fields: readonly string[], at: number): DataRow {
  if (fields.length !== columns.length)
    return { at, values: {}, problem: `has ${fields.length} fields, but the header has ${columns.length}` };
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

export function parseJsonArray(file: string, value: unknown): DataTable {
  if (!Array.isArray(value))
    throw new UserError(`${file}: expected an array of objects. For one object per line, use the extension .jsonl.`);
  const rows = value.map((item: unknown, index) => toObjectRow(item, index + 1));
  return { file, columns: collectColumns(rows), unit: "row", rows };
}

function toObjectRow(value: unknown, at: number): DataRow {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return { at, values: {}, problem: "is not an object" };
  return { at, values: value as Record<string, unknown> };
}

function collectColumns(rows: readonly DataRow[]): string[] {
  return [...new Set(rows.flatMap((row) => Object.keys(row.values)))];
}
