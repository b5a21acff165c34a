import { normalQuantile, studentQuantile } from "../evaluation/special-functions.js";
import {
  holmCorrection,
  type Interval,
  mean,
  pairedTTest,
  standardDeviation,
  wilsonInterval,
} from "../evaluation/statistics.js";
import { inconsistencyPrefix } from "./evaluation-commands.js";
import type { MetricValue } from "./metrics.js";

/** One number of a table over the seeds. */
export interface TableCell {
  /** By seed; null where a run has not measured it. */
  readonly values: readonly (number | null)[];
  readonly mean: number;
  /** Standard deviation over the seeds; null of one. */
  readonly deviation: number | null;
  /** 95 %, by the luck of the seeds and of the examples together. */
  readonly interval: Interval | null;
  readonly examples: number | null;
  /** One-tailed paired t-test that it is better than the baseline, corrected for all rows (Holm); null where it cannot be done. */
  readonly p: number | null;
}

export interface TableRow {
  readonly id: string;
  readonly title: string;
  /** By "column/measure". */
  readonly cells: Readonly<Record<string, TableCell>>;
  /** What selection chose, by column. */
  readonly chosen: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** A table as data: Markdown, CSV and the comparison with a paper are drawn from it. */
export interface ResultsTable {
  readonly format: 1;
  readonly name: string;
  readonly title: string;
  readonly profile: string | null;
  readonly paper: string | null;
  readonly baseline: string | null;
  readonly seeds: readonly number[];
  readonly columns: readonly { readonly id: string; readonly title: string; readonly measures: readonly string[] }[];
  readonly rows: readonly TableRow[];
  readonly notes: readonly string[];
}

/** Differences that a table marks are less likely than this by luck. */
export const significanceLevel = 0.05;

/** Measures of which less is better. */
export function isLowerBetter(measure: string): boolean {
  return measure.startsWith(inconsistencyPrefix) || /loss|error|^drop$/i.test(measure);
}

/** A cell from one measurement a seed. */
export function computeCell(measured: readonly (MetricValue | null)[]): TableCell | null {
  const there = measured.filter((each) => each !== null);
  if (there.length === 0) return null;
  const values = there.map(({ value }) => value);
  const center = mean(values);
  const examples = there[0]!.examples;
  return {
    values: measured.map((each) => each?.value ?? null),
    mean: center,
    deviation: values.length > 1 ? standardDeviation(values) : null,
    interval: combineIntervals(
      center,
      computeSeedHalfWidth(values),
      examples === null ? null : wilsonInterval(center * examples, examples),
    ),
    examples,
    p: null,
  };
}

/** Half the 95 % interval of a mean over seeds; 0 of one seed, whose luck nobody knows. */
function computeSeedHalfWidth(values: readonly number[]): number {
  if (values.length < 2) return 0;
  return studentQuantile(0.975, values.length - 1) * (standardDeviation(values) / Math.sqrt(values.length));
}

/** Seeds and examples are drawn apart from each other: their variances add up. */
function combineIntervals(center: number, half: number, test: Interval | null): Interval | null {
  if (test === null) return half > 0 ? { low: center - half, high: center + half } : null;
  return clampInterval({
    low: center - Math.hypot(half, center - test.low),
    high: center + Math.hypot(half, test.high - center),
  });
}

/** A share of examples lies between none and all. */
function clampInterval({ low, high }: Interval): Interval {
  return { low: Math.max(0, low), high: Math.min(1, high) };
}

/** The mean of several cells of a row, seed by seed. */
export function averageCells(cells: readonly (TableCell | undefined)[]): TableCell | null {
  const there = cells.filter((cell) => cell !== undefined);
  const [first] = there;
  if (!first || there.length < cells.length) return null;
  const values = first.values.map((_, seed) => {
    const each = there.map((cell) => cell.values[seed] ?? null);
    return each.includes(null) ? null : mean(each as number[]);
  });
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return null;
  const center = mean(known);
  // Different test sets: the variances of their shares add up.
  const variance = there.reduce(
    (sum, cell) => sum + (cell.examples === null ? 0 : (cell.mean * (1 - cell.mean)) / cell.examples),
    0,
  );
  const half = Math.hypot(computeSeedHalfWidth(known), (normalQuantile(0.975) * Math.sqrt(variance)) / there.length);
  const around = { low: center - half, high: center + half };
  const areFractions = there.every((cell) => cell.examples !== null);
  return {
    values,
    mean: center,
    deviation: known.length > 1 ? standardDeviation(known) : null,
    interval: half > 0 ? (areFractions ? clampInterval(around) : around) : null,
    examples: null,
    p: null,
  };
}

/** Tests every row against the baseline, each key ("column/measure") as a family of its own. */
export function addSignificanceTests(rows: readonly TableRow[], baseline: string | null): TableRow[] {
  const reference = rows.find(({ id }) => id === baseline);
  if (!reference) return [...rows];
  const tested = new Map<string, Map<string, number>>();
  for (const [key, base] of Object.entries(reference.cells)) {
    const others = rows.flatMap((row) => {
      const cell = row.cells[key];
      const p =
        row === reference || !cell
          ? null
          : computePValue(cell, base, isLowerBetter(key.slice(key.lastIndexOf("/") + 1)));
      return p === null ? [] : [{ id: row.id, p }];
    });
    const adjusted = holmCorrection(others.map(({ p }) => p));
    tested.set(key, new Map(others.map(({ id }, i) => [id, adjusted[i]!])));
  }
  return rows.map((row) => ({
    ...row,
    cells: Object.fromEntries(
      Object.entries(row.cells).map(([key, cell]) => [key, { ...cell, p: tested.get(key)?.get(row.id) ?? null }]),
    ),
  }));
}

/** The same seeds in both, so pairs; seeds that one of them lacks are left out. */
function computePValue(cell: TableCell, base: TableCell, lowerIsBetter: boolean): number | null {
  const pairs = cell.values.flatMap((value, i): [number, number][] => {
    const other = base.values[i] ?? null;
    return value === null || other === null ? [] : [lowerIsBetter ? [other, value] : [value, other]];
  });
  if (pairs.length < 2) return null;
  return pairedTTest(
    pairs.map(([first]) => first),
    pairs.map(([, second]) => second),
  ).p;
}
