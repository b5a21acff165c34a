import type { MetricCell, RunRow } from "../api.js";

/** A row of the table: a run, or the runs of a method over seeds. */
export interface ShownRow {
  readonly id: string;
  readonly title: string;
  readonly detail: string;
  readonly runs: readonly RunRow[];
  /** The reason why a model is degenerate, so that its numbers do not count; null if all are sound. */
  readonly degeneracy: string | null;
  readonly metrics: Readonly<Record<string, MetricCell & { readonly spread?: number }>>;
}

export function toShownRow(row: RunRow): ShownRow {
  return {
    id: row.id,
    title: row.name,
    detail: row.task ?? "",
    runs: [row],
    degeneracy: row.degeneracy,
    metrics: row.metrics,
  };
}

/** Runs that differ only in their seed become one row with the mean over the seeds. */
export function groupRows(rows: readonly RunRow[]): ShownRow[] {
  const groups = new Map<string, RunRow[]>();
  for (const row of rows) {
    const same = groups.get(row.group);
    if (same) same.push(row);
    else groups.set(row.group, [row]);
  }
  const titles = new Map<string, number>();
  return [...groups].map(([id, runs]) => {
    const { methodLabel, method, task } = runs[0]!;
    const label = methodLabel || method || runs[0]!.name;
    const repeats = titles.get(label) ?? 0;
    titles.set(label, repeats + 1);
    return {
      id,
      title: repeats === 0 ? label : `${label} (${repeats + 1})`,
      detail: `${task ?? ""}, ${runs.length === 1 ? "1 seed" : `${runs.length} seeds`}`,
      runs,
      degeneracy: runs.find(({ degeneracy }) => degeneracy !== null)?.degeneracy ?? null,
      metrics: averageMetrics(runs),
    };
  });
}

function averageMetrics(runs: readonly RunRow[]): ShownRow["metrics"] {
  if (runs.length === 1) return runs[0]!.metrics;
  const ids = new Set(runs.flatMap(({ metrics }) => Object.keys(metrics)));
  return Object.fromEntries(
    [...ids].map((id) => {
      const cells = runs.flatMap(({ metrics }) => metrics[id] ?? []);
      const values = cells.map(({ value }) => value);
      const [first] = cells;
      // Seeds that were measured on different numbers of texts have no common number.
      const examples = cells.every((cell) => cell.examples === first!.examples) ? first!.examples : null;
      const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
      const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1);
      return [
        id,
        { value: mean, low: null, high: null, examples, ...(values.length > 1 && { spread: Math.sqrt(variance) }) },
      ];
    }),
  );
}

/** Sorts by a column. Rows without a value come last, and degenerate models are never ranked by a metric. */
export function sortRows(rows: readonly ShownRow[], key: string, isDescending: boolean): ShownRow[] {
  const read = (row: ShownRow): string | number | null => {
    const [first] = row.runs;
    if (key === "name") return row.title;
    if (key === "state") return first!.state;
    if (key === "method") return first!.methodLabel;
    if (key === "seed") return first!.seed;
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
