import { UserError } from "../base/errors.js";
import { type Callbacks, warn } from "../base/events.js";
import { formatCount } from "../base/format.js";
import type { DataTable } from "./data-table.js";
import { createTableError, formatColumns, readCell, requireColumns } from "./parse-examples.js";

/** The text columns to look for. Pairs come first because a pair of names is more specific. */
const usualTextColumns = [
  ["premise", "hypothesis"],
  ["sentence1", "sentence2"],
  ["question1", "question2"],
  ["question", "sentence"],
  ["text"],
  ["sentence"],
  ["review"],
];
const usualLabelColumns = ["label", "labels", "gold_label", "class"];
/** Further names of label columns, in lower case, if the values look like labels. */
const possibleLabelColumns = [
  ...usualLabelColumns,
  "category",
  "target",
  "sentiment",
  "stars",
  "rating",
  "intent",
  "topic",
];
/** A column with more distinct values than this, and few rows per value, is not a label column. */
const maxLabels = 50;
/** A label has at least this many rows on average, and a text this many words. */
const [minRowsPerLabel, minWords] = [3, 2];
/** Rows and columns that are looked at. A damaged table can have any number. */
const [maxRows, maxColumns] = [5000, 100];

export interface ColumnOptions {
  /** The text column, or the two columns of a pair. */
  readonly textColumn?: readonly string[] | undefined;
  readonly labelColumn?: string | null | undefined;
  /** The labels in order. Default: the sorted values of the train split. */
  readonly labels?: readonly string[] | undefined;
  /** Value in the label column -> label. Several values may have the same label. */
  readonly labelMap?: Readonly<Record<string, string>> | undefined;
  readonly onEvent?: Callbacks["onEvent"];
}

/** A column that was chosen, and what speaks for it. The reason is null if the caller named it. */
interface ChosenColumn<Name> {
  readonly name: Name;
  readonly reason: string | null;
}

/**
 * Chooses the columns of the texts and of the labels: the given ones, else those with the usual names, else the longest
 * texts, and the one column in which few values repeat.
 */
export function chooseColumns(
  table: DataTable,
  { textColumn, labelColumn }: ColumnOptions,
): { readonly texts: ChosenColumn<readonly string[]>; readonly label: ChosenColumn<string> } {
  if (labelColumn != null) requireColumns(table, [labelColumn]);
  const texts = chooseTextColumns(table, textColumn, labelColumn ?? null);
  const label = chooseLabelColumn(table, labelColumn ?? null, texts.name);
  if (texts.name.includes(label.name))
    throw new UserError(`${table.file}: column "${label.name}" cannot be both text and label.`);
  return { texts, label };
}

/** Chooses the text columns of a table that may have no labels. */
export function chooseTextColumns(
  table: DataTable,
  given: readonly string[] = [],
  label: string | null = null,
): ChosenColumn<readonly string[]> {
  if (given.length > 2)
    throw new UserError(`--text-column: expected one column, or two for a pair; received ${given.join(", ")}.`);
  const usual = usualTextColumns.find((names) => names.every((name) => table.columns.includes(name) && name !== label));
  const named = given.length > 0 ? given : usual;
  if (named) {
    requireColumns(table, named);
    return { name: named, reason: given.length > 0 ? null : "a usual name of the column of the texts" };
  }
  const [longest] = describeColumns(table)
    .filter(({ name, meanWords }) => name !== label && meanWords >= minWords)
    .sort((a, b) => b.meanWords - a.meanWords);
  if (longest)
    return { name: [longest.name], reason: `has the longest texts, ${Math.round(longest.meanWords)} words on average` };
  throw createTableError(
    [table],
    `${table.file}: no column looks like texts. Name it with --text-column. The columns are ${formatColumns(table.columns)}.`,
  );
}

function chooseLabelColumn(table: DataTable, given: string | null, texts: readonly string[]): ChosenColumn<string> {
  if (given !== null) return { name: given, reason: null };
  const usual = usualLabelColumns.find((name) => table.columns.includes(name) && !texts.includes(name));
  if (usual !== undefined) {
    requireColumns(table, [usual]);
    return { name: usual, reason: "a usual name of the column of the labels" };
  }
  const columns = describeColumns(table);
  const candidates = columns.filter(
    ({ name, distinct, rows }) =>
      !texts.includes(name) && distinct >= 2 && distinct <= Math.min(maxLabels, rows / minRowsPerLabel),
  );
  const named = candidates.filter(({ name }) => possibleLabelColumns.includes(name.toLowerCase()));
  const [found, another] = named.length === 1 ? named : candidates;
  if (found && another === undefined) {
    const reason = `has ${formatCount(found.distinct)} different values in ${formatCount(found.rows)} rows`;
    return { name: found.name, reason };
  }
  const listed = formatColumns((found ? candidates : columns).map(({ name }) => name));
  const message = found
    ? `several columns could have the labels: ${listed}`
    : `no column looks like labels, whose values repeat. The columns are ${listed}`;
  const error = `${table.file}: ${message}. Name the right one with --label-column.`;
  throw found ? new UserError(error) : createTableError([table], error);
}

function describeColumns({ columns, rows }: DataTable) {
  return columns.slice(0, maxColumns).map((name) => {
    const values = rows.slice(0, maxRows).flatMap((row) => readCell(row, name) ?? []);
    const words = values.reduce((sum, value) => sum + value.split(/\s+/).length, 0);
    return { name, distinct: new Set(values).size, rows: values.length, meanWords: words / Math.max(1, values.length) };
  });
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
      `${file}: expected the labels ${labels.join(", ")} in "${column}"; received ${names.slice(0, 10).join(", ")}. ` +
        `If they mean the same, map them: --label-map ${names[0]}=LABEL,…`,
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
