import { UserError } from "../base/errors.js";
import { type Callbacks, warn } from "../base/events.js";
import type { DataTable } from "./data-table.js";
import { createTableError, formatColumns, readCell, requireColumns } from "./parse-examples.js";

/** The text columns to look for. Pairs come first because a pair of names is more specific. */
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
/** A column with more distinct values than this, and few rows per value, is not a label column. */
export const maxLabels = 50;

export interface ColumnOptions {
  /** The text column, or the two columns of a pair. */
  readonly textColumn?: readonly string[] | undefined;
  readonly labelColumn?: string | undefined;
  /** The labels in order. Default: the sorted values of the train split. */
  readonly labels?: readonly string[] | undefined;
  /** Value in the label column -> label. Several values may have the same label. */
  readonly labelMap?: Readonly<Record<string, string>> | undefined;
  readonly onEvent?: Callbacks["onEvent"];
}

/** The columns with one of the default names; undefined if there are none. */
export function findDefaultColumns({ columns }: Pick<DataTable, "columns">): {
  readonly texts: readonly string[] | undefined;
  readonly label: string | undefined;
} {
  return {
    texts: defaultTextColumns.find((names) => names.every((name) => columns.includes(name))),
    label: defaultLabelColumns.find((name) => columns.includes(name)),
  };
}

/** Returns the given text columns, else the first default names that exist, else undefined. */
function findTextColumns(table: DataTable, given: readonly string[] | undefined): readonly string[] | undefined {
  if (given && given.length > 2)
    throw new UserError(`--text-column: expected one column, or two for a pair; received ${given.join(", ")}.`);
  return given ?? findDefaultColumns(table).texts;
}

export function inferTextColumns(table: DataTable, given: readonly string[]): readonly string[] {
  const texts = findTextColumns(table, given.length > 0 ? given : undefined);
  if (texts === undefined)
    throw createTableError(
      [table],
      `${table.file}: pass --text-column COLUMN (twice for a pair). The columns are ${formatColumns(table.columns)}.`,
    );
  requireColumns(table, texts);
  return texts;
}

/** Returns the text and label columns: the given ones, else the first default names. */
export function inferColumns(table: DataTable, options: ColumnOptions): { texts: readonly string[]; label: string } {
  const { file, columns } = table;
  const given = options.textColumn?.length ? options.textColumn : undefined;
  const texts = findTextColumns(table, given);
  const label = options.labelColumn ?? findDefaultColumns(table).label;
  if (texts === undefined || label === undefined) {
    const option = texts === undefined ? "--text-column COLUMN (twice for a pair)" : "--label-column COLUMN";
    throw createTableError([table], `${file}: pass ${option}. The columns are ${formatColumns(columns)}.`);
  }
  requireColumns(table, [...texts, label]);
  if (texts.includes(label)) throw new UserError(`${file}: column "${label}" cannot be both text and label.`);
  if (given === undefined)
    warn(options, `${file}: using ${texts.join(" and ")} as text; choose other columns with --text-column`);
  return { texts, label };
}

/**
 * Returns the label names and the values that stand for them in the file, in the same order. The
 * names are the given labels, else the names of integer classes, else the distinct values, sorted
 * as numbers if all are numbers.
 */
export function inferLabels(
  tables: readonly DataTable[],
  column: string,
  classNames: readonly string[] | undefined,
  options: ColumnOptions,
): { labels: readonly string[]; values: readonly string[] } {
  const values = tables.flatMap((table) => table.rows.flatMap((row) => readCell(row, column) ?? []));
  const distinct = [...new Set(values)];
  if (options.labelMap !== undefined) return resolveLabelMap(options.labelMap, options.labels, distinct);
  const file = tables[0]!.file;
  const areIntegers = distinct.every((value) => /^-?\d+$/.test(value));
  const { labels } = options;
  const toIndices = (names: readonly string[]): string[] => names.map((_, index) => String(index));
  if (labels !== undefined) {
    const names = areIntegers && classNames ? classNames : distinct;
    if (labels.some((label) => names.includes(label)))
      return { labels, values: names === classNames ? labels.map((label) => String(names.indexOf(label))) : labels };
    if (areIntegers && classNames === undefined) {
      // No label occurs in the file, so the integers are indices of the labels.
      const pairs = labels.map((label, index) => `${index} as ${label}`).join(", ");
      warn(options, `${file}: reading the labels ${pairs}`);
      return { labels, values: toIndices(labels) };
    }
    throw createTableError(
      tables,
      `${file}: expected the labels ${labels.join(", ")} in "${column}"; received ${names.slice(0, 10).join(", ")}.`,
    );
  }
  if (classNames !== undefined && areIntegers) return { labels: classNames, values: toIndices(classNames) };
  if (distinct.length > maxLabels && distinct.length > values.length / 10) {
    throw new UserError(
      `${file}: column "${column}" has ${distinct.length} different values in ${values.length} rows, ` +
        "so it is not a label. Choose another one with --label-column.",
    );
  }
  if (distinct.length < 2) {
    const count = `${distinct.length} different value${distinct.length === 1 ? "" : "s"}`;
    throw createTableError(tables, `${file}: column "${column}" has ${count}. A task needs at least two labels.`);
  }
  const areNumbers = distinct.every((value) => Number.isFinite(Number(value)));
  const sorted = distinct.sort(areNumbers ? (a, b) => Number(a) - Number(b) : (a, b) => (a < b ? -1 : 1));
  return { labels: sorted, values: sorted };
}

/**
 * The labels of a map, in the order in which it names them, or in the order of the model. A map that
 * renames values to others of the column, such as OK=ok, is partial: all other values stay labels.
 */
function resolveLabelMap(
  labelMap: Readonly<Record<string, string>>,
  known: readonly string[] | undefined,
  distinct: readonly string[],
): { labels: readonly string[]; values: readonly string[] } {
  const mapped = [...new Set(Object.values(labelMap))];
  const unknown = known && mapped.find((label) => !known.includes(label));
  if (unknown !== undefined)
    throw new UserError(`--label-map: expected the labels ${known!.join(", ")}, received ${unknown}.`);
  const others = distinct.filter((value) => !Object.hasOwn(labelMap, value));
  const isPartial = others.some((value) => mapped.includes(value));
  const labels = known ?? (isPartial ? [...new Set([...mapped, ...others.sort()])] : mapped);
  if (labels.length < 2)
    throw new UserError(`--label-map: expected at least two labels, received only ${labels.join(", ") || "none"}.`);
  return { labels, values: labels };
}
