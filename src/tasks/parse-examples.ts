import { basename } from "node:path";
import { didYouMean } from "../base/did-you-mean.js";
import { UserError } from "../base/errors.js";
import { type Callbacks, warn } from "../base/events.js";
import { formatPercent } from "../base/format.js";
import type { DataRow, DataTable } from "./data-table.js";
import type { Example } from "./example.js";
import { readTable } from "./read-table.js";

export interface ReadOptions {
  readonly skipBadRows?: boolean | undefined;
  /** If a larger fraction of the rows would be skipped, that is an error. Default: all may be. */
  readonly maxSkippedFraction?: number | undefined;
  readonly sliceColumn?: string | undefined;
  readonly onEvent?: Callbacks["onEvent"];
}

export interface ColumnMapping {
  readonly texts: readonly string[];
  readonly label: string;
  /** A column with unique IDs. Default: file and line number. */
  readonly id?: string;
  /** The values in the label column, in the order of the labels of the task. */
  readonly values: readonly string[];
  /** Replaces the values in the label column before they are looked up. */
  readonly labelMap?: Readonly<Record<string, string>> | undefined;
  readonly clean?: (text: string) => string;
}

/** Rejects a table in which a given column does not occur exactly once, and lists its columns. */
export function requireColumns(table: DataTable, columns: readonly string[]): void {
  for (const column of columns) {
    const count = table.columns.filter((name) => name === column).length;
    if (count === 1) continue;
    if (count > 1)
      throw new UserError(`${table.file} has ${count} columns named "${column}". Expected one; rename the others.`);
    throw createTableError(
      [table],
      `${table.file} has no column "${column}"${didYouMean(column, table.columns)}. Its columns are ` +
        `${formatColumns(table.columns)}. Choose other ones with --text-column and --label-column.`,
    );
  }
}

/** Creates an error about columns or labels, after unreadable rows, which may be the cause. */
export function createTableError(tables: readonly DataTable[], message: string): UserError {
  for (const { file, unit, rows } of tables) {
    const problems = rows.flatMap(({ at, problem }) => (problem === undefined ? [] : [`${unit} ${at} ${problem}`]));
    if (problems.length === 0) continue;
    const details = formatProblems(problems);
    if (problems.length === rows.length)
      return new UserError(`${file}: no row can be used: ${details}. Fix them first.`);
    const count = `${problems.length} of ${rows.length} rows`;
    return new UserError(`${file}: ${count} cannot be used: ${details}. Fix them first. Without them: ${message}`);
  }
  return new UserError(message);
}

/** Reads a table and parses its rows. `isIncluded` filters rows without counting them as bad. */
export async function readExamples(
  file: string,
  columns: ColumnMapping,
  options: ReadOptions,
  isIncluded: (values: DataRow["values"]) => boolean = () => true,
  origin = basename(file),
): Promise<Example[]> {
  const table = await readTable(file);
  const rows = table.rows.filter((row) => row.problem !== undefined || isIncluded(row.values));
  return parseExamples({ ...table, rows }, columns, options, origin);
}

/** Parses rows into examples. Bad rows are rejected together, or skipped with a warning. */
export function parseExamples(
  table: DataTable,
  columns: ColumnMapping,
  options: ReadOptions,
  origin: string,
): Example[] {
  const { sliceColumn } = options;
  requireColumns(table, [...columns.texts, columns.label, ...(sliceColumn === undefined ? [] : [sliceColumn])]);
  const { labelMap } = columns;
  const indices = new Map(columns.values.map((value, index) => [value, index]));
  const mapped = Object.entries(labelMap ?? {}).map(([value, label]) => [value, indices.get(label)] as const);
  // A value that is already a label stays one.
  const labelIndices = new Map([...mapped, ...[...indices].filter(([value]) => !Object.hasOwn(labelMap ?? {}, value))]);
  const examples: Example[] = [];
  const problems: string[] = [];
  for (const row of table.rows) {
    const texts = columns.texts.map((column) => (columns.clean ?? String)(readCell(row, column) ?? ""));
    const label = readCell(row, columns.label);
    const index = labelIndices.get(label ?? "");
    const missing = [...texts, label ?? ""].indexOf("");
    if (row.problem !== undefined) problems.push(`${table.unit} ${row.at} ${row.problem}`);
    else if (missing >= 0)
      problems.push(`${table.unit} ${row.at} has no "${[...columns.texts, columns.label][missing]}"`);
    else if (index === undefined)
      problems.push(
        `${table.unit} ${row.at} has the label "${label}", expected one of ${[...labelIndices.keys()].join(", ")}`,
      );
    else {
      const id = columns.id === undefined ? `${origin}:${row.at}` : readCell(row, columns.id)!;
      const slice = sliceColumn === undefined ? undefined : (readCell(row, sliceColumn) ?? "(none)");
      examples.push({ id, texts, label: index, ...(slice !== undefined && { slice }) });
    }
  }
  if (problems.length > 0) reportProblems(table, problems, examples.length, options);
  return examples;
}

export function readCell(row: DataRow, column: string): string | undefined {
  // A row without a column named "constructor" must not get the constructor of all objects.
  const value = Object.hasOwn(row.values, column) ? row.values[column] : undefined;
  if (value === undefined || value === null || typeof value === "object") return undefined;
  return String(value).trim() || undefined;
}

function reportProblems(table: DataTable, problems: readonly string[], good: number, options: ReadOptions): void {
  const details = formatProblems(problems);
  const count = `${problems.length} of ${table.rows.length} rows`;
  if (good === 0) throw new UserError(`${table.file}: no row can be used: ${details}.`);
  if (!options.skipBadRows)
    throw new UserError(
      `${table.file}: ${count} cannot be used: ${details}. Fix them, or skip them with --skip-bad-rows ` +
        "(skipBadRows: true in a config or sweep).",
    );
  const { maxSkippedFraction = 1 } = options;
  if (problems.length > maxSkippedFraction * table.rows.length)
    throw new UserError(
      `${table.file}: ${count} cannot be used: ${details}. At most ${formatPercent(maxSkippedFraction, 0)} may be skipped ` +
        "with --skip-bad-rows. Fix the others.",
    );
  warn(options, `${table.file}: skipped ${count}: ${details}`);
}

function formatProblems(problems: readonly string[]): string {
  return `${problems.slice(0, 5).join("; ")}${problems.length > 5 ? `; and ${problems.length - 5} more` : ""}`;
}

/** The first columns, because a damaged table can have millions. Names with commas are in quotes. */
export function formatColumns(columns: readonly string[]): string {
  const shown = columns
    .slice(0, 50)
    .map((column) => column.slice(0, 80))
    .map((column) => (column.includes(",") ? `"${column}"` : column));
  return `${shown.join(", ")}${columns.length > shown.length ? ` and ${columns.length - shown.length} more` : ""}`;
}
