import { significanceLevel } from "../evaluation/compare.js";
import { describeMetric } from "../evaluation/metric-table.js";
import { computePValue, getMetric, type TableCell, type TableRow } from "./table.js";

/**
 * ROSE's test: every row against every baseline, by one-tailed t-tests over the seeds. The p-value
 * of a cell is the largest of its tests, so a marked row is better than all baselines, and no
 * correction for their number is needed.
 */
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
  return rows.map((row) => {
    if (references.includes(row)) return row;
    return {
      ...row,
      cells: Object.fromEntries(Object.entries(row.cells).map(([key, cell]) => [key, test(key, cell)])),
    };
  });
}
