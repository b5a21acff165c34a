import { type MeasuredSeed, toModelOutcomes } from "../actions/compare.js";
import { compareModels, type MetricComparison } from "../evaluation/compare.js";
import { describeMetric } from "../evaluation/metric-table.js";
import { mean } from "../evaluation/statistics.js";
import { combineAttacks, listCommonAttacks, worstCaseId } from "../evaluation/worst-case.js";
import type { MetricValue } from "../runs/run-metrics.js";
import { computeCells, type TableCell } from "./table.js";

/** A row in one column: what was measured with each seed of the table. */
export interface ColumnRow {
  readonly row: string;
  readonly seeds: readonly MeasuredSeed[];
}

/**
 * Computes the cells of a column and compares each row with the baseline as `temper compare` does,
 * before Holm's correction. The notes name degenerate models and missing attacks.
 */
export function compareColumn(
  given: readonly ColumnRow[],
  baseline: string | null,
  notes: string[],
): ReadonlyMap<string, ReadonlyMap<string, TableCell>> {
  const rows = unifyWorstCases(given, notes);
  const comparisons = compareRows(rows, baseline);
  return new Map(
    rows.map(({ row, seeds }) => {
      const cells = computeCells(seeds.map(({ metrics }) => metrics));
      const reason = seeds.flatMap(({ degeneracy }) => degeneracy ?? [])[0];
      if (reason !== undefined) notes.push(`${row} is degenerate: ${reason}`);
      const warning = reason === undefined ? null : `${row} is degenerate: ${reason}`;
      const own = comparisons.filter(({ secondName }) => secondName === row);
      const attacks = own.map(({ metric }) => metric).filter((metric) => !["accuracy", "clean"].includes(metric));
      const marked = [...cells].map(([metric, cell]): [string, TableCell] => {
        // One attack is its own worst case.
        const wanted = metric === worstCaseId && attacks.length === 1 ? attacks[0] : metric;
        const found = own.find((comparison) => comparison.metric === wanted);
        return [metric, found ? { ...cell, ...toMark(found) } : { ...cell, warning }];
      });
      return [row, new Map(marked)];
    }),
  );
}

function compareRows(rows: readonly ColumnRow[], baseline: string | null): readonly MetricComparison[] {
  const first = rows.find(({ row }) => row === baseline);
  const others = rows.filter((each) => each !== first);
  if (!first || others.length === 0) return [];
  const models = [first, ...others].map(({ row, seeds }) => toModelOutcomes(row, seeds));
  return compareModels(models, { skipIncomparable: true });
}

/** The baseline comes first. All p-values are corrected later, so `better` is only the direction. */
function toMark({ p, difference, warning }: MetricComparison): Pick<TableCell, "p" | "test" | "better" | "warning"> {
  const test = p.mcNemar === null ? "bootstrap" : "McNemar";
  return { p: p.mcNemar ?? p.bootstrap, test, better: difference < 0, warning };
}

/** Replaces the worst case of every row by that over the attacks that all attacked rows have. */
function unifyWorstCases(rows: readonly ColumnRow[], notes: string[]): readonly ColumnRow[] {
  const outcomes = (metrics: ReadonlyMap<string, MetricValue>) =>
    new Map([...metrics].flatMap(([id, { outcomes: each }]) => (each ? [[id, each] as const] : [])));
  const all = rows.flatMap(({ seeds }) => seeds.map(({ metrics }) => outcomes(metrics)));
  const common = listCommonAttacks(all);
  const used = new Set(all.flatMap((seed) => listCommonAttacks([seed])));
  if (used.size === common.length) return rows;
  const covered =
    common.length > 0 ? `only ${common.join(", ")}, which all rows have` : "left out, no attack is common";
  notes.push(`${describeMetric(worstCaseId).title}: ${covered}`);
  const replace = (metrics: ReadonlyMap<string, MetricValue>): ReadonlyMap<string, MetricValue> => {
    const others = [...metrics].filter(([id]) => id !== worstCaseId);
    const own = outcomes(metrics);
    if (common.length === 0 || !common.every((name) => own.has(name))) return new Map(others);
    const worst = combineAttacks(common.map((name) => own.get(name)!));
    const value = mean(Array.from(worst.values(), Number));
    return new Map([
      ...others,
      [worstCaseId, { value, examples: worst.size, outcomes: common.length > 1 ? worst : null }],
    ]);
  };
  return rows.map(({ row, seeds }) => ({
    row,
    seeds: seeds.map((seed) => ({ ...seed, metrics: replace(seed.metrics) })),
  }));
}
