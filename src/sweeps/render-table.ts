import { join } from "node:path";
import { z } from "zod";
import { didYouMean } from "../base/did-you-mean.js";
import { UserError } from "../base/errors.js";
import { formatCount } from "../base/format.js";
import { validate } from "../base/validate.js";
import { readYaml } from "../base/yaml.js";
import { significanceLevel } from "../evaluation/compare.js";
import { formatMetric } from "../evaluation/metric-table.js";
import { wilsonInterval } from "../evaluation/statistics.js";
import { packageRoot } from "../tensor/native.js";
import { getMetric, type ResultsTable, type TableCell } from "./table.js";

/** A mean in percent, or a mean and a standard deviation. */
const numberSchema = z.union([z.number(), z.tuple([z.number(), z.number()])]);

const publishedTableSchema = z.strictObject({
  source: z.string(),
  /** Sizes of the test sets, by "column/metric", column or metric, for the confidence intervals. */
  examples: z.record(z.string(), z.number().int().positive()).default({}),
  rows: z.record(z.string(), z.record(z.string(), numberSchema)),
});
export type PublishedTable = z.output<typeof publishedTableSchema>;

type PublishedValue = Pick<TableCell, "mean" | "std" | "interval">;

const publishedResultsPath = join(packageRoot, "experiments", "published.yaml");

export async function readPublishedTable(id: string, path = publishedResultsPath): Promise<PublishedTable> {
  const { value, locate } = await readYaml(path);
  const tables = validate(z.record(z.string(), publishedTableSchema), value, locate);
  const found = tables[id];
  if (found) return found;
  const known = Object.keys(tables);
  throw new UserError(
    `publishedTable: ${path} has no table ${id}${didYouMean(id, known)}. The tables are ${known.join(", ")}.`,
  );
}

export function getPublishedValue(table: PublishedTable, row: string, key: string): PublishedValue | null {
  const number = table.rows[row]?.[key];
  if (number === undefined) return null;
  const [percent, std] = typeof number === "number" ? [number, null] : number;
  const column = key.slice(0, key.lastIndexOf("/"));
  const examples = table.examples[key] ?? table.examples[column] ?? table.examples[getMetric(key)];
  const mean = percent / 100;
  return {
    mean,
    std: std === null ? null : std / 100,
    interval: examples ? wilsonInterval(mean * examples, examples) : null,
  };
}

/** True if the intervals of our number and the published one are disjoint; null if unknown. */
export function hasDisjointIntervals(ours: TableCell, published: PublishedValue): boolean | null {
  if (!ours.interval || !published.interval) return null;
  return ours.interval.low > published.interval.high || published.interval.low > ours.interval.high;
}

/** `94.1 ± 0.3 (92.4 to 95.5)`: mean, standard deviation over seeds, confidence interval. */
function formatNumbers(numbers: PublishedValue | null | undefined, metric: string, mark: string | false): string {
  if (!numbers) return "–";
  const { mean, std, interval } = numbers;
  const format = (value: number): string => formatMetric(metric, value);
  const bounds = interval ? ` (${format(interval.low)} to ${format(interval.high)})` : "";
  return `${format(mean)}${std === null ? "" : ` ± ${format(std)}`}${bounds}${mark || ""}`;
}

/** A degenerate model has a warning instead of a mark. */
function formatMark({ better, warning }: TableCell): string | false {
  return warning === null ? better && " *" : " !";
}

const escapeMarkdown = (text: string): string => text.replaceAll("|", "\\|").replaceAll("\n", " ");

function listTableColumns({ columns }: ResultsTable): { key: string; title: string; metric: string }[] {
  return columns.flatMap(({ id, title, metrics }) =>
    metrics.map((metric) => ({
      key: `${id}/${metric}`,
      title: title === "all" ? metric : `${title} ${metric}`,
      metric,
    })),
  );
}

/** The number of texts of a column; null if its rows have different numbers, or none. */
function findCommonExamples({ rows }: ResultsTable, key: string): number | null {
  const counts = new Set(rows.flatMap(({ cells }) => cells[key]?.examples ?? []));
  return counts.size === 1 ? [...counts][0]! : null;
}

export function toMarkdown(table: ResultsTable, published: PublishedTable | null = null): string {
  const columns = listTableColumns(table);
  const head = ["", ...columns.flatMap(({ title }) => (published ? [title, "published"] : [title]))];
  const rows = table.rows.map((row) => [
    row.title,
    ...columns.flatMap(({ key, metric }) => {
      const cell = row.cells[key];
      const isOther = cell?.examples != null && findCommonExamples(table, key) === null;
      const texts = isOther ? ` of ${formatCount(cell.examples)}` : "";
      const ours = formatNumbers(cell, metric, `${texts}${(cell && formatMark(cell)) || ""}`);
      if (!published) return [ours];
      const theirs = getPublishedValue(published, row.id, key);
      const differs = cell && theirs && hasDisjointIntervals(cell, theirs);
      return [ours, formatNumbers(theirs, metric, differs === true && " ≠")];
    }),
  ]);
  const formatLine = (cells: readonly string[]): string => `| ${cells.map(escapeMarkdown).join(" | ")} |`;
  const lines = [formatLine(head), formatLine(head.map((_, i) => (i === 0 ? "---" : "---:"))), ...rows.map(formatLine)];
  return `${[`## ${table.title}`, "", ...lines, "", ...formatLegend(table, published)].join("\n")}\n`;
}

function formatLegend(table: ResultsTable, published: PublishedTable | null): string[] {
  const seeds = table.seeds.length;
  const baselines = table.rows.filter(({ id }) => table.baselines.includes(id)).map(({ title }) => title);
  const selected = table.rows.flatMap((row) =>
    Object.entries(row.selected).map(([column, values]) => {
      const settings = Object.entries(values).map(([key, value]) => `${key} ${JSON.stringify(value)}`);
      return `- ${row.title}, ${column}: ${settings.join(", ")}`;
    }),
  );
  const lines = [
    `Mean ± standard deviation over ${seeds} seed${seeds === 1 ? "" : "s"}, in percent. ` +
      "In parentheses: 95% CI over seeds and test examples.",
  ];
  const texts = listTableColumns(table).flatMap(({ key, title }) => {
    const count = findCommonExamples(table, key);
    return count === null ? [] : [`${title} ${formatCount(count)}`];
  });
  if (texts.length > 0) lines.push(`Test examples: ${texts.join(", ")}.`);
  if (baselines.length > 0) lines.push(formatTestLegend(table, baselines));
  if (table.rows.some(({ cells }) => listTableColumns(table).some(({ key }) => !cells[key])))
    lines.push("–: not measured.");
  if (listCells(table).some(({ warning }) => warning !== null))
    lines.push("!: a model is degenerate (see below), so nothing can be concluded from the difference.");
  if (published)
    lines.push(
      `Published: ${published.source}, with the 95% CI for the size of its test set. ` +
        "≠: the two confidence intervals do not overlap.",
    );
  if (table.profile) lines.push(`Profile ${table.profile}: smaller than the paper's setting.`);
  if (selected.length > 0) lines.push("", "Selected on the validation split:", "", ...selected);
  if (table.notes.length > 0) lines.push("", ...table.notes.map((note) => `- ${note}`));
  return lines;
}

function formatTestLegend(table: ResultsTable, baselines: readonly string[]): string {
  const tests = listTests(table);
  if (table.significance === "seeds")
    return `\\*: significantly better than ${baselines.join(", ")} (${tests}, against each; p < ${significanceLevel}).`;
  return `\\*: significantly better than ${baselines[0]} (${tests}; p < ${significanceLevel}, Holm-corrected over all tests of the table).`;
}

function listCells({ rows }: ResultsTable): TableCell[] {
  return rows.flatMap(({ cells }) => Object.values(cells));
}

const testDescriptions: Readonly<Record<NonNullable<TableCell["test"]>, string>> = {
  McNemar: "McNemar's test over the examples",
  bootstrap: "bootstrap over seeds and examples",
  "one-tailed t-test": "one-tailed paired t-test over the seeds",
};

function listTests(table: ResultsTable): string {
  const used = [...new Set(listCells(table).flatMap(({ test }) => test ?? []))];
  return used.length > 0 ? used.map((test) => testDescriptions[test]).join(", ") : "no cell can be tested";
}

export function addPublishedNumbers(table: ResultsTable, published: PublishedTable | null = null): ResultsTable {
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
