import { UserError } from "../errors.js";
import { createTableError, readCell, requireColumns } from "./parse-examples.js";
import type { DataTable } from "./read-table.js";

/** Names under which texts and labels are usually found, pairs first: a pair's columns say more than one column does. */
const defaultTextColumns = [
  ["premise", "hypothesis"],
  ["sentence1", "sentence2"],
  ["question1", "question2"],
  ["question", "sentence"],
  ["text"],
  ["sentence"],
  ["review"],
];
const defaultLabelColumns = ["label", "labels", "gold_label", "class"];
/** With more labels than this, and few rows each, the column is no label. */
const maxLabels = 50;

/** The columns of the texts and of the label: those named, or the usual ones where none is. */
export function inferColumns(
  table: DataTable,
  named: {
    readonly text?: readonly string[] | undefined;
    readonly label?: string | undefined;
    readonly onNotice?: ((message: string) => void) | undefined;
  },
): { texts: readonly string[]; label: string } {
  const given = named.text?.length ? named.text : undefined;
  if (given && given.length > 2)
    throw new UserError(`--text-column: expected one column, or two for a pair; received ${given.join(", ")}`);
  const texts =
    given ?? defaultTextColumns.find((columns) => columns.every((column) => table.columns.includes(column)));
  const label = named.label ?? defaultLabelColumns.find((column) => table.columns.includes(column));
  if (texts === undefined || label === undefined) {
    const missing = texts === undefined ? "--text-column COLUMN (twice for a pair)" : "--label-column COLUMN";
    throw createTableError(
      [table],
      `${table.file}: name the column with ${missing}; its columns are ${table.columns.join(", ")}`,
    );
  }
  requireColumns(table, [...texts, label]);
  if (texts.includes(label))
    throw new UserError(`${table.file}: the column "${label}" cannot be text and label at once`);
  if (given === undefined)
    named.onNotice?.(`${table.file}: taking ${texts.join(" and ")} as text; name other columns with --text-column`);
  return { texts, label };
}

/** What may be known of the labels besides the tables. */
export interface KnownLabels {
  /** The labels in their order, from the user or from the model. */
  readonly labels?: readonly string[] | undefined;
  /** The names of integer classes. */
  readonly classNames?: readonly string[] | undefined;
  readonly onWarning?: ((message: string) => void) | undefined;
}

/**
 * The label names and the file's values for them, in one order: the labels given; or the names of integer classes; or the distinct
 * values of the tables, by number where all are numbers, else by letter.
 */
export function inferLabels(
  tables: readonly DataTable[],
  column: string,
  known: KnownLabels,
): { labels: readonly string[]; values: readonly string[] } {
  const values = tables.flatMap((table) => table.rows.flatMap((row) => readCell(row, column) ?? []));
  const found = [...new Set(values)];
  const file = tables[0]!.file;
  const integers = found.every((value) => /^-?\d+$/.test(value));
  const { labels, classNames } = known;
  if (labels !== undefined) {
    const names = integers ? (classNames ?? []) : found;
    if (labels.some((label) => names.includes(label)))
      return { labels, values: integers ? labels.map((label) => String(names.indexOf(label))) : labels };
    if (integers && classNames === undefined) return { labels, values: toIntegerValues(labels, found, file, known) };
    throw createTableError(
      tables,
      `${file}: expected the labels ${labels.join(", ")} in "${column}", received ${names.slice(0, 10).join(", ")}`,
    );
  }
  if (classNames !== undefined && integers)
    return { labels: classNames, values: classNames.map((_, index) => String(index)) };
  if (found.length > maxLabels && found.length > values.length / 10) {
    throw new UserError(
      `${file}: the column "${column}" has ${found.length} different values in ${values.length} rows; that is no label. Name another one with --label-column`,
    );
  }
  if (found.length < 2)
    throw createTableError(
      tables,
      `${file}: the column "${column}" has ${found.length} different values; a task needs two labels or more`,
    );
  const numeric = found.every((value) => Number.isFinite(Number(value)));
  const sorted = found.sort(numeric ? (a, b) => Number(a) - Number(b) : (a, b) => (a < b ? -1 : 1));
  return { labels: sorted, values: sorted };
}

/** Integers where names were expected are the labels' places, unless the names are integers themselves. */
function toIntegerValues(
  labels: readonly string[],
  found: readonly string[],
  file: string,
  known: KnownLabels,
): readonly string[] {
  if (labels.some((label) => found.includes(label))) return labels;
  const places = labels.map((_, index) => String(index));
  known.onWarning?.(
    `${file}: reading its labels ${places.map((place, index) => `${place} as ${labels[index]}`).join(", ")}`,
  );
  return places;
}
