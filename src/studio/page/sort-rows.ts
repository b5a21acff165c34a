import type { RunRow } from "../api.js";

/** Sorts by a column. Rows without a value and, for metrics, degenerate models come last. */
export function sortRows(rows: readonly RunRow[], key: string, isDescending: boolean): RunRow[] {
  const read = (row: RunRow): string | number | null => {
    if (key === "name") return row.name;
    if (key === "method") return row.methodLabel;
    if (key === "seed") return row.seed;
    return row.degeneracy === null ? (row.metrics[key]?.value ?? null) : null;
  };
  const sign = isDescending ? -1 : 1;
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  return rows.toSorted((a, b) => {
    const [x, y] = [read(a), read(b)];
    if (x === null || y === null) return Number(x === null) - Number(y === null);
    return sign * (typeof x === "number" && typeof y === "number" ? x - y : compare(String(x), String(y)));
  });
}
