import { UserError } from "../base/errors.js";
import { formatCount } from "../base/format.js";
import type { DataTable } from "./data-table.js";
import { findDefaultColumns, maxLabels } from "./infer-columns.js";
import { createTableError, formatColumns, readCell, requireColumns } from "./parse-examples.js";

/** A column that was chosen, and what speaks for it. */
interface ChosenColumn<Name> {
  readonly name: Name;
  /** Null if the caller named it. */
  readonly reason: string | null;
}

/** The columns of a table that its reader did not have to name. */
export interface GuessedColumns {
  readonly texts: ChosenColumn<readonly string[]>;
  readonly label: ChosenColumn<string>;
}

/** Rows that are looked at. */
const maxRows = 5000;
/** A label has at least this many rows on average. */
const minRowsPerLabel = 3;
/** Texts have at least this many words on average. */
const minWords = 2;
/** Names of label columns beside the default ones, in lower case. */
const labelNames = [
  "label",
  "labels",
  "class",
  "category",
  "target",
  "sentiment",
  "stars",
  "rating",
  "intent",
  "topic",
];

/** The facts about a column that do not depend on its name. */
interface ColumnFacts {
  readonly name: string;
  readonly distinct: number;
  readonly rows: number;
  readonly meanWords: number;
}

/**
 * Guesses which columns of a table have the texts and the labels: those with the usual names, else
 * the longest texts, and the one column in which few values repeat.
 */
export function guessColumns(
  table: DataTable,
  given: { readonly textColumn: readonly string[]; readonly labelColumn: string | null },
): GuessedColumns {
  requireColumns(table, [...given.textColumn, ...(given.labelColumn === null ? [] : [given.labelColumn])]);
  const facts = table.columns.map((name) => describeColumn(table, name));
  const texts = chooseTexts(table, facts, given);
  const label = chooseLabel(table, facts, given.labelColumn, texts.name);
  return { texts, label };
}

function describeColumn(table: DataTable, name: string): ColumnFacts {
  const values = table.rows.slice(0, maxRows).flatMap((row) => readCell(row, name) ?? []);
  const words = values.reduce((sum, value) => sum + value.split(/\s+/).length, 0);
  return { name, distinct: new Set(values).size, rows: values.length, meanWords: words / Math.max(1, values.length) };
}

function chooseTexts(
  table: DataTable,
  facts: readonly ColumnFacts[],
  { textColumn, labelColumn }: { readonly textColumn: readonly string[]; readonly labelColumn: string | null },
): GuessedColumns["texts"] {
  if (textColumn.length > 0) return { name: textColumn, reason: null };
  const usual = findDefaultColumns(table).texts;
  if (usual && !usual.includes(labelColumn ?? ""))
    return { name: usual, reason: "a usual name of the column of the texts" };
  const [longest] = facts
    .filter(({ name, meanWords }) => name !== labelColumn && meanWords >= minWords)
    .sort((a, b) => b.meanWords - a.meanWords);
  if (longest)
    return { name: [longest.name], reason: `has the longest texts, ${Math.round(longest.meanWords)} words on average` };
  throw createTableError(
    [table],
    `${table.file}: no column looks like texts. Name it with --text-column. The columns are ${formatColumns(table.columns)}.`,
  );
}

function chooseLabel(
  table: DataTable,
  facts: readonly ColumnFacts[],
  given: string | null,
  texts: readonly string[],
): GuessedColumns["label"] {
  if (given !== null) return { name: given, reason: null };
  const usual = findDefaultColumns(table).label;
  if (usual !== undefined && !texts.includes(usual))
    return { name: usual, reason: "a usual name of the column of the labels" };
  const candidates = facts.filter(
    ({ name, distinct, rows }) =>
      !texts.includes(name) && distinct >= 2 && distinct <= Math.min(maxLabels, rows / minRowsPerLabel),
  );
  const named = candidates.filter(({ name }) => labelNames.includes(name.toLowerCase()));
  const [found, another] = named.length === 1 ? named : candidates;
  if (found && another === undefined)
    return {
      name: found.name,
      reason: `has ${formatCount(found.distinct)} different values in ${formatCount(found.rows)} rows`,
    };
  const listed = formatColumns((found ? candidates : facts).map(({ name }) => name));
  const message = found
    ? `several columns could have the labels: ${listed}`
    : `no column looks like labels, whose values repeat. The columns are ${listed}`;
  const error = `${table.file}: ${message}. Name the right one with --label-column.`;
  throw found ? new UserError(error) : createTableError([table], error);
}
