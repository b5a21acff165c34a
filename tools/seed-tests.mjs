// What the tools that compare rows of a sweep over its seeds have in common.
import { readFileSync } from "node:fs";
import { resolve } from "node:path";

const root = resolve(import.meta.dirname ?? new URL(".", import.meta.url).pathname, "..");
const statistics = await import(resolve(root, "dist/evaluation/statistics.js"));
export const { mean, holmCorrection, standardDeviation } = statistics;

/** Reads the rows of OUT/table.json, or of `temper table --json`, which prints a list of tables. */
export function createRowReader(path) {
  const [table] = [JSON.parse(readFileSync(path, "utf8"))].flat();
  const stop = (message) => {
    console.error(message);
    process.exit(2);
  };
  const findRow = (name) =>
    table.rows.find(({ id }) => id === name) ??
    stop(`there is no row ${name}; the rows are ${table.rows.map(({ id }) => id).join(", ")}`);
  return {
    table,
    findRow,
    /** One value per seed. */
    readValues(name, column, metric) {
      const { values = [] } = findRow(name).cells[`${column}/${metric}`] ?? {};
      if (values.length === table.seeds.length && values.every((value) => typeof value === "number")) return values;
      return stop(`${name}, ${column}: expected ${metric} of ${table.seeds.length} seeds, found ${values.length}`);
    },
  };
}

/** Two rows with one value per seed, and the two-sided p-value of their difference. */
export function compareSeeds(first, second) {
  const { p } = statistics.pairedTTest(first, second);
  // The function is one-sided.
  return { first, second, p: Math.min(1, 2 * Math.min(p, 1 - p)) };
}

export const formatPercent = (value) => (100 * value).toFixed(1);

/** Mean and standard deviation of the differences. */
export function formatDifference({ first, second }) {
  const differences = first.map((value, seed) => value - second[seed]);
  return `${formatPercent(mean(differences))} ± ${formatPercent(standardDeviation(differences))}`;
}
