import { type MeasuredSeed, toModelOutcomes } from "../actions/compare.js";
import { listen } from "../base/events.js";
import { compareModels, type MetricComparison } from "../evaluation/compare.js";
import { mean } from "../evaluation/statistics.js";
import { unifyWorstCase, worstCaseId } from "../evaluation/worst-case.js";
import type { MetricValue } from "../runs/run-metrics.js";
import { computeCells, type TableCell } from "./table.js";

export interface ColumnRow {
  readonly row: string;
  readonly seeds: readonly MeasuredSeed[];
}

export function compareColumn(
  given: readonly ColumnRow[],
  baseline: string | null,
  notes: string[],
): ReadonlyMap<string, ReadonlyMap<string, TableCell>> {
  const rows = unifyWorstCases(given, notes);
  const comparisons = compareRows(rows, baseline);
  return new Map(
    rows.map(({ row, seeds }) => {
      const reason = seeds.flatMap(({ degeneracy }) => degeneracy ?? [])[0];
      const warning = reason === undefined ? null : `${row} is degenerate: ${reason}`;
      if (warning !== null) notes.push(warning);
      const own = new Map(
        comparisons.filter(({ secondName }) => secondName === row).map((each) => [each.metric, each]),
      );
      const cells = [...computeCells(seeds.map(({ metrics }) => metrics))].map(
        ([metric, cell]): [string, TableCell] => {
          const comparison = own.get(metric);
          return [metric, comparison ? { ...cell, ...toMark(comparison) } : { ...cell, warning }];
        },
      );
      return [row, new Map(cells)];
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

/**
 * If the attacks of some rows have not finished, the worst case is over those that all attacked rows
 * have.
 */
function unifyWorstCases(rows: readonly ColumnRow[], notes: string[]): readonly ColumnRow[] {
  const models = unifyWorstCase(
    rows.map(({ row, seeds }) => toModelOutcomes(row, seeds)),
    listen({ warning: ({ message }) => notes.push(message) }),
  );
  return rows.map(({ row, seeds }, i) => ({
    row,
    seeds: seeds.map((seed, k) => {
      const metrics = new Map<string, MetricValue>(seed.metrics);
      metrics.delete(worstCaseId);
      const outcomes = models[i]!.outcomesPerSeed[k]?.get(worstCaseId);
      if (outcomes)
        metrics.set(worstCaseId, {
          value: mean(Array.from(outcomes.values(), Number)),
          examples: outcomes.size,
          outcomes,
        });
      return { ...seed, metrics };
    }),
  }));
}
