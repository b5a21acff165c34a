import type { Interval } from "../evaluation/statistics.js";
import {
  getPublishedValue,
  hasDisjointIntervals,
  type PublishedTable,
  type PublishedValue,
} from "./published-results.js";
import { type ResultsTable, significanceLevel, type TableCell } from "./table.js";

/** Shares are shown in percent, losses as they are. */
function formatValue(value: number, measure: string): string {
  return /loss/.test(measure) ? value.toFixed(3) : (100 * value).toFixed(1);
}

function formatInterval(bounds: Interval | null, measure: string): string {
  return bounds ? ` (${formatValue(bounds.low, measure)} to ${formatValue(bounds.high, measure)})` : "";
}

/** 94.1 ± 0.3 (92.4 to 95.5) *: mean, deviation over seeds, interval, and a star where it is better than the baseline. */
function formatCell(cell: TableCell | undefined, measure: string): string {
  if (!cell) return "–";
  const spread = cell.deviation === null ? "" : ` ± ${formatValue(cell.deviation, measure)}`;
  const mark = cell.p !== null && cell.p < significanceLevel ? " *" : "";
  return `${formatValue(cell.mean, measure)}${spread}${formatInterval(cell.interval, measure)}${mark}`;
}

function formatPublishedCell(cell: TableCell | undefined, published: PublishedValue | null, measure: string): string {
  if (!published) return "–";
  const spread = published.deviation === null ? "" : ` ± ${formatValue(published.deviation, measure)}`;
  const mark = cell && hasDisjointIntervals(cell, published) ? " ≠" : "";
  return `${formatValue(published.mean, measure)}${spread}${formatInterval(published.interval, measure)}${mark}`;
}

const escapeMarkdown = (text: string): string => text.replaceAll("|", "\\|").replaceAll("\n", " ");

/** The columns of a table one by one. */
function listTableColumns({ columns }: ResultsTable): { key: string; title: string; measure: string }[] {
  return columns.flatMap(({ id, title, measures }) =>
    measures.map((measure) => ({
      key: `${id}/${measure}`,
      title: title === "all" ? measure : `${title} ${measure}`,
      measure,
    })),
  );
}

/** The table for people, and what it means. */
export function toMarkdown(table: ResultsTable, published: PublishedTable | null = null): string {
  const keys = listTableColumns(table);
  const head = ["", ...keys.flatMap(({ title }) => (published ? [title, "published"] : [title]))];
  const rows = table.rows.map((row) => [
    row.title,
    ...keys.flatMap(({ key, measure }) => {
      const cell = row.cells[key];
      return [
        formatCell(cell, measure),
        ...(published ? [formatPublishedCell(cell, getPublishedValue(published, row.id, key), measure)] : []),
      ];
    }),
  ]);
  const line = (cells: readonly string[]): string => `| ${cells.map(escapeMarkdown).join(" | ")} |`;
  const lines = [line(head), line(head.map((_, i) => (i === 0 ? "---" : "---:"))), ...rows.map(line)];
  return `${[`## ${table.title}`, "", ...lines, "", ...formatLegend(table, published)].join("\n")}\n`;
}

function formatLegend(table: ResultsTable, published: PublishedTable | null): string[] {
  const seeds = table.seeds.length;
  const baseline = table.rows.find(({ id }) => id === table.baseline)?.title;
  const chosen = table.rows.flatMap(({ title, chosen: by }) =>
    Object.entries(by).map(([column, values]) => {
      const settings = Object.entries(values).map(([key, value]) => `${key} ${JSON.stringify(value)}`);
      return `- ${title}, ${column}: ${settings.join(", ")}`;
    }),
  );
  return [
    `Mean ± standard deviation over ${seeds} seed${seeds === 1 ? "" : "s"}, in percent; in parentheses the 95 % interval by seeds and test examples together.`,
    ...(baseline
      ? [`\\*: better than ${baseline} (one-tailed paired t-test over seeds, Holm, p < ${significanceLevel}).`]
      : []),
    ...(published
      ? [
          `Published: ${published.source}, with the interval that its test set allows; ≠: further from ours than both intervals explain.`,
        ]
      : []),
    ...(table.profile ? [`Profile ${table.profile}: smaller than the paper's setting.`] : []),
    ...(chosen.length > 0 ? ["", "Chosen on the selection split:", "", ...chosen] : []),
    ...(table.notes.length > 0 ? ["", ...table.notes.map((note) => `- ${note}`)] : []),
  ];
}

const csvHeader = [
  "row",
  "column",
  "measure",
  "seeds",
  "mean",
  "deviation",
  "low",
  "high",
  "p",
  "published",
  "published_low",
  "published_high",
];

/** One line a cell, for other programs; shares, not percent. */
export function toCsv(table: ResultsTable, published: PublishedTable | null = null): string {
  const lines = table.rows.flatMap((row) =>
    table.columns.flatMap(({ id, measures }) =>
      measures.flatMap((measure) => {
        const key = `${id}/${measure}`;
        const cell = row.cells[key];
        const theirs = published && getPublishedValue(published, row.id, key);
        if (!cell) return [];
        const count = cell.values.filter((value) => value !== null).length;
        const numbers = [count, cell.mean, cell.deviation, cell.interval?.low, cell.interval?.high, cell.p];
        return [[row.id, id, measure, ...numbers, theirs?.mean, theirs?.interval?.low, theirs?.interval?.high]];
      }),
    ),
  );
  const quoteCsv = (value: unknown): string => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return `${[csvHeader, ...lines].map((line) => line.map(quoteCsv).join(",")).join("\n")}\n`;
}

/** The table as JSON, with the published numbers beside ours. */
export function toTableJson(table: ResultsTable, published: PublishedTable | null = null): object {
  if (!published) return table;
  const rows = table.rows.map((row) => ({
    ...row,
    cells: Object.fromEntries(
      Object.entries(row.cells).map(([key, cell]) => {
        const found = getPublishedValue(published, row.id, key);
        return [key, found ? { ...cell, published: { ...found, differs: hasDisjointIntervals(cell, found) } } : cell];
      }),
    ),
  }));
  return { ...table, source: published.source, rows };
}
