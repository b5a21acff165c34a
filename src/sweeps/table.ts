import { significanceLevel } from "../evaluation/compare.js";
import { describeMetric, exactPrefix, isAttackMetric } from "../evaluation/metric-table.js";
import { normalQuantile } from "../evaluation/special-functions.js";
import {
  computeSeedHalfWidth,
  holmCorrection,
  type Interval,
  mean,
  pairedTTest,
  standardDeviation,
  wilsonInterval,
} from "../evaluation/statistics.js";
import { worstCaseId } from "../evaluation/worst-case.js";
import type { MetricValue } from "../runs/run-metrics.js";

export interface TableCell {
  /** By seed; null if a run has no value. */
  readonly values: readonly (number | null)[];
  readonly mean: number;
  /** Standard deviation over the seeds; null for one seed. */
  readonly std: number | null;
  /** 95% confidence interval over seeds and examples. */
  readonly interval: Interval | null;
  readonly examples: number | null;
  /**
   * The p-value of the difference from the baseline; null if there is no test. Holm's correction is
   * over all tests of the table, unless a sweep tests over the seeds.
   */
  readonly p: number | null;
  /** Accuracies are compared by example, as `temper compare` does; scores over the seeds. */
  readonly test: "McNemar" | "bootstrap" | "one-tailed t-test" | null;
  /** True if significantly better than the baseline. Never for a degenerate model. */
  readonly better: boolean;
  /** Names the degenerate model that forbids conclusions from the difference. */
  readonly warning: string | null;
}

const untested = { p: null, test: null, better: false, warning: null } as const;

export interface TableRow {
  readonly id: string;
  readonly title: string;
  readonly cells: Readonly<Record<string, TableCell>>;
  /** The selected values of the grid, by column. */
  readonly selected: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** A table as data. Markdown and the comparison with a paper are rendered from it. */
export interface ResultsTable {
  readonly format: 2;
  readonly name: string;
  readonly title: string;
  readonly profile: string | null;
  readonly publishedTable: string | null;
  readonly baselines: readonly string[];
  readonly significance: "examples" | "seeds";
  readonly seeds: readonly number[];
  readonly columns: readonly {
    readonly id: string;
    readonly title: string;
    readonly metrics: readonly string[];
  }[];
  readonly rows: readonly TableRow[];
  readonly notes: readonly string[];
  /** The paper of the published numbers, if they were added. */
  readonly source?: string;
}

export function getMetric(key: string): string {
  return key.slice(key.lastIndexOf("/") + 1);
}

export function computeCells(measured: readonly ReadonlyMap<string, MetricValue>[]): Map<string, TableCell> {
  const ids = new Set(measured.flatMap((metrics) => [...metrics.keys()]));
  return new Map([...ids].map((id) => [id, computeCell(measured.map((metrics) => metrics.get(id) ?? null))!]));
}

export function computeCell(measured: readonly (Pick<MetricValue, "value" | "examples"> | null)[]): TableCell | null {
  const found = measured.filter((each) => each !== null);
  if (found.length === 0) return null;
  const values = found.map(({ value }) => value);
  const center = mean(values);
  const examples = found[0]!.examples;
  return {
    values: measured.map((each) => each?.value ?? null),
    mean: center,
    std: values.length > 1 ? standardDeviation(values) : null,
    interval: combineIntervals(
      center,
      computeSeedHalfWidth(values),
      examples === null ? null : wilsonInterval(center * examples, examples),
    ),
    examples,
    ...untested,
  };
}

/** Seeds and examples vary independently, so their variances add up. */
function combineIntervals(center: number, half: number, test: Interval | null): Interval | null {
  if (test === null) return half > 0 ? { low: center - half, high: center + half } : null;
  return clampInterval({
    low: center - Math.hypot(half, center - test.low),
    high: center + Math.hypot(half, test.high - center),
  });
}

/** A fraction of examples is between 0 and 1. */
function clampInterval({ low, high }: Interval): Interval {
  return { low: Math.max(0, low), high: Math.min(1, high) };
}

export function averageCells(cells: readonly (TableCell | undefined)[]): TableCell | null {
  const found = cells.filter((cell) => cell !== undefined);
  const [first] = found;
  if (!first || found.length < cells.length) return null;
  const values = first.values.map((_, seed) => {
    const each = found.map((cell) => cell.values[seed] ?? null);
    return each.includes(null) ? null : mean(each as number[]);
  });
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return null;
  const center = mean(known);
  // The test sets differ, so the variances of their fractions add up.
  const variance = found.reduce(
    (sum, cell) => sum + (cell.examples === null ? 0 : (cell.mean * (1 - cell.mean)) / cell.examples),
    0,
  );
  const half = Math.hypot(computeSeedHalfWidth(known), (normalQuantile(0.975) * Math.sqrt(variance)) / found.length);
  const interval = { low: center - half, high: center + half };
  const areFractions = found.every((cell) => cell.examples !== null);
  return {
    values,
    mean: center,
    std: known.length > 1 ? standardDeviation(known) : null,
    interval: half > 0 ? (areFractions ? clampInterval(interval) : interval) : null,
    examples: null,
    ...untested,
    warning: found.find(({ warning }) => warning !== null)?.warning ?? null,
  };
}

/**
 * Tests every row against the baseline over the seeds, in cells that were not compared by example,
 * and corrects all p-values of the table together (Holm).
 */
export function addSignificanceTests(rows: readonly TableRow[], baseline: string | null): TableRow[] {
  const reference = rows.find(({ id }) => id === baseline);
  const test = (row: TableRow, key: string, cell: TableCell): TableCell => {
    const base = reference?.cells[key];
    if (!base || row === reference || isComparedByExample(rows, key)) return cell;
    const p = computePValue(cell, base, describeMetric(getMetric(key)).direction === "lower");
    const warning = cell.warning ?? base.warning;
    // The test has one tail, so a small p-value means better.
    return p === null ? cell : { ...cell, p, test: "one-tailed t-test", better: true, warning };
  };
  return correctPValues(rows.map((row) => mapCells(row, (key, cell) => test(row, key, cell))));
}

function mapCells(row: TableRow, map: (key: string, cell: TableCell) => TableCell): TableRow {
  return { ...row, cells: Object.fromEntries(Object.entries(row.cells).map(([key, cell]) => [key, map(key, cell)])) };
}

function correctPValues(rows: readonly TableRow[]): TableRow[] {
  const tested = rows.flatMap(({ cells }) => Object.values(cells)).filter(({ p }) => p !== null);
  const corrected = holmCorrection(tested.map(({ p }) => p!));
  const adjusted = new Map(tested.map((cell, i) => [cell, corrected[i]!]));
  return rows.map((row) =>
    mapCells(row, (_, cell) => {
      const p = adjusted.get(cell);
      if (p === undefined) return cell;
      return { ...cell, p, better: cell.better && p < significanceLevel && cell.warning === null };
    }),
  );
}

/** Metrics with outcomes per example are compared by these, not over the seeds. */
function isComparedByExample(rows: readonly TableRow[], key: string): boolean {
  const metric = getMetric(key);
  const isExact = metric.startsWith(exactPrefix);
  const isKnown = ["accuracy", "clean", worstCaseId].includes(metric) || isExact || isAttackMetric(metric);
  return isKnown || rows.some(({ cells }) => cells[key] && cells[key].test !== null);
}

/** Values of the same seed are pairs. Seeds that one of the cells lacks are left out. */
function computePValue(cell: TableCell, base: TableCell, isLowerBetter: boolean): number | null {
  const pairs = cell.values.flatMap((value, i): [number, number][] => {
    const other = base.values[i] ?? null;
    return value === null || other === null ? [] : [isLowerBetter ? [other, value] : [value, other]];
  });
  if (pairs.length < 2) return null;
  return pairedTTest(
    pairs.map(([first]) => first),
    pairs.map(([, second]) => second),
  ).p;
}

/** ROSE's test: every row against every baseline over the seeds; the largest p-value counts. */
export function addSeedTests(rows: readonly TableRow[], baselines: readonly string[]): TableRow[] {
  const references = rows.filter(({ id }) => baselines.includes(id));
  if (references.length === 0) return [...rows];
  const test = (key: string, cell: TableCell): TableCell => {
    const isLowerBetter = describeMetric(getMetric(key)).direction === "lower";
    const others = references.flatMap(({ cells }) => cells[key] ?? []);
    const values = others.map((other) => computePValue(cell, other, isLowerBetter));
    const known = values.filter((value) => value !== null);
    if (known.length < references.length) return cell;
    const p = Math.max(...known);
    const warning = cell.warning ?? others.find((other) => other.warning !== null)?.warning ?? null;
    return { ...cell, p, test: "one-tailed t-test", better: p < significanceLevel && warning === null, warning };
  };
  return rows.map((row) => (references.includes(row) ? row : mapCells(row, test)));
}
