import { didYouMean } from "../did-you-mean.js";
import { UserError } from "../errors.js";
import type { DataRow, DataTable } from "./read-table.js";
import type { Example } from "./task.js";

/** How a task treats rows that it cannot use, and where it says what it did. */
export interface ReadOptions {
  readonly skipBadRows?: boolean | undefined;
  readonly onWarning?: ((message: string) => void) | undefined;
}

/** Which columns hold what, and what a label looks like in the file. */
export interface ColumnMapping {
  readonly texts: readonly string[];
  readonly label: string;
  /** The set's own id, where it has one that is unique. */
  readonly id?: string;
  /** The file's values of the labels, in the task's order. */
  readonly values: readonly string[];
  /** What is done to each text before it is used. */
  readonly clean?: (text: string) => string;
}

/** Fails, naming the columns that are there, unless the table has each of these once. */
export function requireColumns(table: DataTable, columns: readonly string[]): void {
  for (const column of columns) {
    const found = table.columns.filter((name) => name === column).length;
    if (found === 1) continue;
    if (found > 1)
      throw new UserError(`${table.file} has ${found} columns "${column}"; expected one: rename the others`);
    throw createTableError(
      [table],
      `${table.file} has no column "${column}"${didYouMean(column, table.columns)}; ` +
        `its columns are ${table.columns.join(", ")}. Name the right ones with --text-column and --label-column`,
    );
  }
}

/** A complaint about columns or labels. Rows that could not be read are named first, since columns and labels may be missing with them. */
export function createTableError(tables: readonly DataTable[], message: string): UserError {
  for (const { file, unit, rows } of tables) {
    const problems = rows.flatMap(({ at, problem }) => (problem === undefined ? [] : [`${unit} ${at} ${problem}`]));
    if (problems.length === 0) continue;
    if (problems.length === rows.length)
      return new UserError(`${file}: no row can be used: ${formatProblems(problems)}. Mend them first`);
    return new UserError(
      `${file}: ${problems.length} of ${rows.length} rows cannot be used: ${formatProblems(problems)}. Mend them first; without them: ${message}`,
    );
  }
  return new UserError(message);
}

/** Turns rows into examples. Rows that cannot be used are refused together, by line, or skipped with a notice. */
export function parseExamples(
  table: DataTable,
  layout: ColumnMapping,
  options: ReadOptions,
  origin: string,
): Example[] {
  requireColumns(table, [...layout.texts, layout.label]);
  const labelIndices = new Map(layout.values.map((value, index) => [value, index]));
  const examples: Example[] = [];
  const problems: string[] = [];
  for (const row of table.rows) {
    const texts = layout.texts.map((column) => (layout.clean ?? String)(readCell(row, column) ?? ""));
    const problem = row.problem ?? findProblem(row, texts, layout, labelIndices);
    if (problem !== undefined) {
      problems.push(`${table.unit} ${row.at} ${problem}`);
      continue;
    }
    examples.push({
      id: layout.id === undefined ? `${origin}:${row.at}` : readCell(row, layout.id)!,
      texts,
      label: labelIndices.get(readCell(row, layout.label)!)!,
    });
  }
  reportProblems(table, problems, examples.length, options);
  return examples;
}

/** A field as text; undefined where it is missing or empty. */
export function readCell(row: DataRow, column: string): string | undefined {
  const value = row.values[column];
  if (value === undefined || value === null || typeof value === "object") return undefined;
  const text = String(value).trim();
  return text === "" ? undefined : text;
}

function findProblem(
  row: DataRow,
  texts: readonly string[],
  layout: ColumnMapping,
  labelIndices: ReadonlyMap<string, number>,
): string | undefined {
  const missing = texts.indexOf("");
  if (missing >= 0) return `has no "${layout.texts[missing]}"`;
  const label = readCell(row, layout.label);
  if (label === undefined) return `has no "${layout.label}"`;
  if (!labelIndices.has(label)) return `has the label "${label}", which is none of ${layout.values.join(", ")}`;
  return undefined;
}

function reportProblems(table: DataTable, problems: readonly string[], good: number, options: ReadOptions): void {
  if (problems.length === 0) return;
  const shown = formatProblems(problems);
  const count = `${problems.length} of ${table.rows.length} rows`;
  if (good === 0) throw new UserError(`${table.file}: no row can be used: ${shown}`);
  if (!options.skipBadRows)
    throw new UserError(
      `${table.file}: ${count} cannot be used: ${shown}. Mend them, or leave them out with --skip-bad-rows`,
    );
  options.onWarning?.(`${table.file}: left out ${count}: ${shown}`);
}

function formatProblems(problems: readonly string[]): string {
  return `${problems.slice(0, 5).join("; ")}${problems.length > 5 ? `; and ${problems.length - 5} more` : ""}`;
}
