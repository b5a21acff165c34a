import { join } from "node:path";
import { z } from "zod";
import { didYouMean } from "../did-you-mean.js";
import { UserError } from "../errors.js";
import { type Interval, wilsonInterval } from "../evaluation/statistics.js";
import { readYaml } from "../runs/read-config.js";
import { packageRoot } from "../tensor/native.js";
import { validate } from "../validate.js";
import type { TableCell } from "./table.js";

/** A mean in percent, or mean and standard deviation. */
const numberSchema = z.union([z.number(), z.tuple([z.number(), z.number()])]);

const publishedTableSchema = z.strictObject({
  source: z.string(),
  /** Examples of the test sets, by "column/measure", column or measure: they bound what a number can say. */
  examples: z.record(z.string(), z.number().int().positive()).default({}),
  rows: z.record(z.string(), z.record(z.string(), numberSchema)),
});
export type PublishedTable = z.output<typeof publishedTableSchema>;

/** A published number as a share, with the interval that its test set allows. */
export interface PublishedValue {
  readonly mean: number;
  readonly deviation: number | null;
  readonly interval: Interval | null;
}

export const publishedResultsPath = join(packageRoot, "experiments", "published.yaml");

/** The published numbers of a table. */
export async function readPublishedTable(id: string, path = publishedResultsPath): Promise<PublishedTable> {
  const located = await readYaml(path);
  const tables = validate(z.record(z.string(), publishedTableSchema), located.value, located.where);
  const found = tables[id];
  if (found) return found;
  const known = Object.keys(tables);
  throw new UserError(`paper: ${path} has no table ${id}${didYouMean(id, known)}; it has ${known.join(", ")}`);
}

/** The published number of a cell; null where the paper has none. */
export function getPublishedValue(table: PublishedTable, row: string, key: string): PublishedValue | null {
  const given = table.rows[row]?.[key];
  if (given === undefined) return null;
  const [percent, spread] = typeof given === "number" ? [given, null] : given;
  const cut = key.lastIndexOf("/");
  const examples = table.examples[key] ?? table.examples[key.slice(0, cut)] ?? table.examples[key.slice(cut + 1)];
  const mean = percent / 100;
  return {
    mean,
    deviation: spread === null ? null : spread / 100,
    interval: examples ? wilsonInterval(mean * examples, examples) : null,
  };
}

/** Whether ours and theirs are further apart than the luck of seeds and examples explains; null where one of the two is unknown. */
export function hasDisjointIntervals(ours: TableCell, theirs: PublishedValue): boolean | null {
  if (!ours.interval || !theirs.interval) return null;
  return ours.interval.low > theirs.interval.high || theirs.interval.low > ours.interval.high;
}
