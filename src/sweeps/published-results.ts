import { join } from "node:path";
import { z } from "zod";
import { didYouMean } from "../base/did-you-mean.js";
import { UserError } from "../base/errors.js";
import { validate } from "../base/validate.js";
import { readYaml } from "../base/yaml.js";
import { wilsonInterval } from "../evaluation/statistics.js";
import { packageRoot } from "../tensor/native.js";
import { getMetric, type TableCell } from "./table.js";

/** A mean in percent, or a mean and a standard deviation. */
const numberSchema = z.union([z.number(), z.tuple([z.number(), z.number()])]);

const publishedTableSchema = z.strictObject({
  source: z.string(),
  /**
   * Sizes of the test sets, by "column/metric", column or metric. They give the confidence
   * intervals.
   */
  examples: z.record(z.string(), z.number().int().positive()).default({}),
  rows: z.record(z.string(), z.record(z.string(), numberSchema)),
});
export type PublishedTable = z.output<typeof publishedTableSchema>;

/** A published number as a fraction, with the confidence interval for the size of its test set. */
export type PublishedValue = Pick<TableCell, "mean" | "std" | "interval">;

const publishedResultsPath = join(packageRoot, "experiments", "published.yaml");

/** Reads the published numbers of a table. */
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

/** The published number of a cell; null if the paper has none. */
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

/**
 * True if the confidence intervals of our number and the published one are disjoint; null if one is
 * unknown.
 */
export function hasDisjointIntervals(ours: TableCell, published: PublishedValue): boolean | null {
  if (!ours.interval || !published.interval) return null;
  return ours.interval.low > published.interval.high || published.interval.low > ours.interval.high;
}
